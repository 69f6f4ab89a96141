// The specification of between.h, and with what the compiler's baseline vectorises of these loops the portable kernels.
#include "kernels/between/between.h"

#include <algorithm>

namespace ftbnn {

namespace {

#include "kernels/between/curves.h"

template <bool IsMax>
void pool_row(const PoolRow& row) {
  for (int x = 0; x < row.width; ++x) {
    const int start = x * row.stride - row.left, first = start > 0 ? start : 0;
    const int last = start + row.kw < row.columns ? start + row.kw : row.columns;
    float* __restrict to = row.out + x * row.out_stride;
    for (int c = 0; c < row.channels; ++c) to[c] = IsMax ? -__builtin_inff() : 0.0F;
    for (int r = 0; r < row.rows; ++r) {
      for (int k = first; k < last; ++k) {
        const float* __restrict from = row.in + r * row.row_stride + k * row.in_stride;
        if (IsMax) {
          for (int c = 0; c < row.channels; ++c) to[c] = from[c] > to[c] ? from[c] : to[c];
        } else {
          for (int c = 0; c < row.channels; ++c) to[c] += from[c];
        }
      }
    }
    const float divisor = row.divisor != 0 ? row.divisor : static_cast<float>(row.rows * (last - first));
    for (int c = 0; !IsMax && c < row.channels; ++c) to[c] /= divisor;
    if (row.again != 0) std::copy_n(to, row.channels, to + row.again);
  }
}

void max_pool_row(const PoolRow& row) { pool_row<true>(row); }

void average_pool_row(const PoolRow& row) { pool_row<false>(row); }

void sign_row(const SignRow& row) {
  for (int x = 0; x < row.width; ++x) {
    const float* in = row.in + x * row.in_stride;
    std::uint64_t* codes = row.codes + x * row.codes_stride;
    for (int c = 0; c < row.channels; ++c) {
      const float threshold = row.threshold != nullptr ? row.threshold[c] : 0;
      if (c % 64 == 0) codes[c / 64] = 0;
      codes[c / 64] |= static_cast<std::uint64_t>(in[c] > threshold) << c % 64;
    }
  }
}

void pointwise_row(const PointwiseRow& row) {
  const Epilogue& end = row.end;
  for (int x = 0; x < row.width; ++x) {
    const float* in = row.in + x * row.in_stride;
    const float* shortcut = end.shortcut != nullptr ? end.shortcut + x * end.shortcut_stride : nullptr;
    float all[PANEL];
    for (int c = 0; c < row.channels; ++c) {
      float y = bend_first(end, c, end.scale[c] * in[c] + end.shift[c]);
      if (shortcut != nullptr) y += shortcut[c];
      all[c] = y = activate(end, c, y);
      if (end.out != nullptr) end.out[x * end.out_stride + c] = y;
    }
    if (end.codes != nullptr) sign(end, static_cast<std::size_t>(x), 0, row.channels, all);
  }
}

void interleave_row(const InterleaveRow& row) {
  for (int x = 0; x < row.width; ++x) {
    for (int c = 0; c < row.channels; ++c)
      row.out[static_cast<std::size_t>(x) * row.channels + c] = row.in[c * row.plane_stride + x];
  }
}

void normalise_row(const NormaliseRow& row) {
  for (int k = 0; k < row.count; ++k) row.out[k] = row.scale[k] * static_cast<float>(row.in[k]) + row.shift[k];
}

}  // namespace

extern const BetweenKernels between__portable;
const BetweenKernels between__portable = {max_pool_row,   average_pool_row, sign_row, pointwise_row,
                                          interleave_row, normalise_row,    bend};

}  // namespace ftbnn
