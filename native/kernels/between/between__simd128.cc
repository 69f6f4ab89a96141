// A lane is a channel; up to four vectors of channels at a time hide the latency of additions. Channels that do not
// fill a vector are done one by one. Nothing is fused, so it gives portable's bits.
#include "kernels/between/between.h"
#include "kernels/epilogue/epilogue__simd128.h"

namespace ftbnn {

namespace {

constexpr int BLOCK = 4;  // vectors

#include "kernels/between/curves.h"

struct Columns {
  int first, last;
};

inline Columns inside(const PoolRow& row, int x) {
  const int start = x * row.stride - row.left, end = start + row.kw;
  return {start > 0 ? start : 0, end < row.columns ? end : row.columns};
}

inline float divisor(const PoolRow& row, Columns columns) {
  return row.divisor != 0 ? row.divisor : static_cast<float>(row.rows * (columns.last - columns.first));
}

template <bool IsMax, int Vectors>
inline void pool(const PoolRow& row, int x, int c) {
  const Columns columns = inside(row, x);
  v128_t acc[Vectors];
  for (int v = 0; v < Vectors; ++v) acc[v] = wasm_f32x4_splat(IsMax ? -__builtin_inff() : 0.0F);
  for (int r = 0; r < row.rows; ++r) {
    const float* from = row.in + r * row.row_stride + columns.first * row.in_stride + c;
    for (int k = columns.first; k < columns.last; ++k, from += row.in_stride) {
      for (int v = 0; v < Vectors; ++v) {
        const v128_t value = wasm_v128_load(from + v * LANES);
        acc[v] = IsMax ? wasm_f32x4_pmax(acc[v], value) : wasm_f32x4_add(acc[v], value);
      }
    }
  }
  if (!IsMax) {
    const v128_t count = wasm_f32x4_splat(divisor(row, columns));
    for (int v = 0; v < Vectors; ++v) acc[v] = wasm_f32x4_div(acc[v], count);
  }
  float* to = row.out + x * row.out_stride + c;
  for (int v = 0; v < Vectors; ++v) wasm_v128_store(to + v * LANES, acc[v]);
  for (int v = 0; row.again != 0 && v < Vectors; ++v) wasm_v128_store(to + row.again + v * LANES, acc[v]);
}

template <bool IsMax>
inline void pool_one(const PoolRow& row, int x, int c) {
  const Columns columns = inside(row, x);
  float acc = IsMax ? -__builtin_inff() : 0.0F;
  for (int r = 0; r < row.rows; ++r) {
    for (int k = columns.first; k < columns.last; ++k) {
      const float value = row.in[r * row.row_stride + k * row.in_stride + c];
      acc = IsMax ? (value > acc ? value : acc) : acc + value;
    }
  }
  float* to = row.out + x * row.out_stride + c;
  to[row.again] = to[0] = IsMax ? acc : acc / divisor(row, columns);
}

template <bool IsMax>
void pool_row(const PoolRow& row) {
  for (int x = 0; x < row.width; ++x) {
    int c = 0;
    for (; c + BLOCK * LANES <= row.channels; c += BLOCK * LANES) pool<IsMax, BLOCK>(row, x, c);
    for (; c + LANES <= row.channels; c += LANES) pool<IsMax, 1>(row, x, c);
    for (; c < row.channels; ++c) pool_one<IsMax>(row, x, c);
  }
}

// Up to 64 signs; with Thresholds, those are not 0.
template <bool Thresholds>
inline std::uint64_t signs(const float* in, const float* threshold, int count) {
  std::uint64_t word = 0;
  int c = 0;
  for (; c + LANES <= count; c += LANES) {
    const v128_t bound = Thresholds ? wasm_v128_load(threshold + c) : wasm_f32x4_const_splat(0);
    word |= static_cast<std::uint64_t>(wasm_i32x4_bitmask(wasm_f32x4_gt(wasm_v128_load(in + c), bound))) << c;
  }
  for (; c < count; ++c) word |= static_cast<std::uint64_t>(in[c] > (Thresholds ? threshold[c] : 0.0F)) << c;
  return word;
}

void max_pool_row(const PoolRow& row) { pool_row<true>(row); }

void average_pool_row(const PoolRow& row) { pool_row<false>(row); }

void sign_row(const SignRow& row) {
  for (int x = 0; x < row.width; ++x) {
    const float* in = row.in + x * row.in_stride;
    std::uint64_t* codes = row.codes + x * row.codes_stride;
    for (int c = 0; c < row.channels; c += 64) {
      const int count = row.channels - c < 64 ? row.channels - c : 64;
      *codes++ = row.threshold != nullptr ? signs<true>(in + c, row.threshold + c, count)
                                          : signs<false>(in + c, nullptr, count);
    }
  }
}

void pointwise_row(const PointwiseRow& row) {
  constexpr int channels = HALF * LANES;
  for (int x = 0; x < row.width; ++x) {
    for (int first = 0; first < row.channels; first += channels) {
      const float* in = row.in + x * row.in_stride + first;
      float some[channels];
      const int count = row.channels - first;
      for (int c = 0; count < channels && c < channels; ++c) some[c] = c < count ? in[c] : 0;
      v128_t y[HALF][1];
      for (int v = 0; v < HALF; ++v) y[v][0] = wasm_v128_load((count < channels ? some : in) + v * LANES);
      finish(row.end, row.channels, first, static_cast<std::size_t>(x), y);
    }
  }
}

void interleave_row(const InterleaveRow& row) {
  for (int x = 0; x < row.width; ++x) {
    for (int c = 0; c < row.channels; ++c)
      row.out[static_cast<std::size_t>(x) * row.channels + c] = row.in[c * row.plane_stride + x];
  }
}

void normalise_row(const NormaliseRow& row) {
  int k = 0;
  for (; k + 2 * LANES <= row.count; k += 2 * LANES) {
    const v128_t words = wasm_u16x8_load8x8(row.in + k);
    const v128_t halves[] = {wasm_u32x4_extend_low_u16x8(words), wasm_u32x4_extend_high_u16x8(words)};
    for (int h = 0; h < 2; ++h) {
      const int at = k + h * LANES;
      const v128_t scaled = wasm_f32x4_mul(wasm_v128_load(row.scale + at), wasm_f32x4_convert_u32x4(halves[h]));
      wasm_v128_store(row.out + at, wasm_f32x4_add(scaled, wasm_v128_load(row.shift + at)));
    }
  }
  for (; k < row.count; ++k) row.out[k] = row.scale[k] * static_cast<float>(row.in[k]) + row.shift[k];
}

}  // namespace

extern const BetweenKernels between__simd128;
const BetweenKernels between__simd128 = {max_pool_row,   average_pool_row, sign_row, pointwise_row,
                                         interleave_row, normalise_row,    bend};

}  // namespace ftbnn
