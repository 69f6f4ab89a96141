// The specification of rows.h, and with what the compiler's baseline vectorises of these loops the portable kernels.
#include "kernels/rows.h"

namespace ftbnn {

namespace {

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
    if (IsMax) continue;
    const float divisor = row.divisor != 0 ? row.divisor : static_cast<float>(row.rows * (last - first));
    for (int c = 0; c < row.channels; ++c) to[c] /= divisor;
  }
}

int popcount(std::uint64_t word) {
  word -= word >> 1 & 0x5555555555555555;
  word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333);
  word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0f;
  return static_cast<int>(word * 0x0101010101010101 >> 56);
}

}  // namespace

void max_pool_row__portable(const PoolRow& row) { pool_row<true>(row); }

void average_pool_row__portable(const PoolRow& row) { pool_row<false>(row); }

void sign_row__portable(const SignRow& row) {
  for (int x = 0; x < row.width; ++x) {
    const float* in = row.in + x * row.in_stride;
    std::uint64_t* codes = row.codes + x * row.codes_stride;
    for (int c = 0; c < row.channels; ++c) {
      const int bit = row.at + c;
      std::uint64_t& word = codes[bit / 64];
      if (bit % 64 == 0) word = 0;
      if (c == 0) word &= (std::uint64_t{1} << bit % 64) - 1;
      word |= static_cast<std::uint64_t>(in[c] > 0) << bit % 64;
    }
  }
}

void ones_row__portable(const OnesRow& row) {
  const int columns = (row.width - 1) * row.stride + row.kw;
  for (int x = 0; x < columns; ++x) {
    row.columns[x] = 0;
    for (int ky = 0; ky < row.kh; ++ky) {
      const std::uint64_t* in = row.in + ky * row.row_stride + static_cast<std::size_t>(x) * row.words;
      for (int k = 0; k < row.words; ++k) row.columns[x] += popcount(in[k]);
    }
  }
  for (int x = 0; x < row.width; ++x) {
    row.ones[x] = 0;
    for (int kx = 0; kx < row.kw; ++kx) row.ones[x] += row.columns[x * row.stride + kx];
  }
}

void pointwise_row__portable(const PointwiseRow& row) {
  const Epilogue& end = row.end;
  for (int x = 0; x < row.width; ++x) {
    const float* in = row.in + x * row.in_stride;
    const float* shortcut = end.shortcut != nullptr ? end.shortcut + x * end.shortcut_stride : nullptr;
    for (int c = 0; c < row.channels; ++c) {
      float y = end.scale[c] * in[c] + end.shift[c];
      if (shortcut != nullptr) y += shortcut[c];
      end.out[x * end.out_stride + c] = activate(end, c, y);
    }
  }
}

void interleave_row__portable(const InterleaveRow& row) {
  for (int x = 0; x < row.width; ++x) {
    for (int c = 0; c < row.channels; ++c)
      row.out[static_cast<std::size_t>(x) * row.channels + c] = row.in[c * row.plane_stride + x];
  }
}

void normalise_row__portable(const NormaliseRow& row) {
  for (int k = 0; k < row.count; ++k) row.out[k] = row.scale[k] * static_cast<float>(row.in[k]) + row.shift[k];
}

}  // namespace ftbnn
