// A lane is a channel; 16 channels at a time, four vectors, hide the latency of additions. Those left over are done one
// by one.
#include "kernels/between/between.h"
#include "kernels/epilogue/epilogue__neon.h"

namespace ftbnn {

namespace {

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

// The larger by comparison, as everywhere: FMAX would choose among zeros and pass on what is not a number.
inline float32x4_t larger(float32x4_t value, float32x4_t than) {
  return vbslq_f32(vcgtq_f32(value, than), value, than);
}

template <bool IsMax, int Vectors>
inline void pool(const PoolRow& row, int x, int c) {
  const Columns columns = inside(row, x);
  float32x4_t acc[Vectors];
  for (int v = 0; v < Vectors; ++v) acc[v] = vdupq_n_f32(IsMax ? -__builtin_inff() : 0.0F);
  for (int r = 0; r < row.rows; ++r) {
    const float* from = row.in + r * row.row_stride + columns.first * row.in_stride + c;
    for (int k = columns.first; k < columns.last; ++k, from += row.in_stride) {
      for (int v = 0; v < Vectors; ++v) {
        const float32x4_t value = vld1q_f32(from + 4 * v);
        acc[v] = IsMax ? larger(value, acc[v]) : vaddq_f32(acc[v], value);
      }
    }
  }
  if (!IsMax) {
    const float32x4_t count = vdupq_n_f32(divisor(row, columns));
    for (int v = 0; v < Vectors; ++v) acc[v] = vdivq_f32(acc[v], count);
  }
  float* to = row.out + x * row.out_stride + c;
  for (int v = 0; v < Vectors; ++v) vst1q_f32(to + 4 * v, acc[v]);
  for (int v = 0; row.again != 0 && v < Vectors; ++v) vst1q_f32(to + row.again + 4 * v, acc[v]);
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
    for (; c + LANES <= row.channels; c += LANES) pool<IsMax, PARTS>(row, x, c);
    for (; c + 4 <= row.channels; c += 4) pool<IsMax, 1>(row, x, c);
    for (; c < row.channels; ++c) pool_one<IsMax>(row, x, c);
  }
}

void max_pool_row(const PoolRow& row) { pool_row<true>(row); }

void average_pool_row(const PoolRow& row) { pool_row<false>(row); }

// Up to 64 signs; with Thresholds, those are not 0.
template <bool Thresholds>
inline std::uint64_t signs(const float* in, const float* threshold, int count) {
  std::uint64_t word = 0;
  int c = 0;
  for (; c + LANES <= count; c += LANES) {
    const Floats bound = Thresholds ? load_floats(threshold + c) : Floats{};
    word |= static_cast<std::uint64_t>(signs_of(load_floats(in + c), bound)) << c;
  }
  for (; c < count; ++c) word |= static_cast<std::uint64_t>(in[c] > (Thresholds ? threshold[c] : 0.0F)) << c;
  return word;
}

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

template <int Positions>
void pointwise(const PointwiseRow& row, int first, int x) {
  const int count = row.channels - first;
  const float* in = row.in + x * row.in_stride + first;
  Floats y[Positions];
#pragma GCC unroll 4
  for (int p = 0; p < Positions; ++p, in += row.in_stride)
    y[p] = count >= LANES ? load_floats(in) : load_some(in, count);
  finish(row.end, row.channels, first, static_cast<std::size_t>(x), y);
}

void pointwise_row(const PointwiseRow& row) {
  constexpr int some = 4;
  int x = 0;
  for (; x + some <= row.width; x += some) {
    for (int c = 0; c < row.channels; c += LANES) pointwise<some>(row, c, x);
  }
  for (; x < row.width; ++x) {
    for (int c = 0; c < row.channels; c += LANES) pointwise<1>(row, c, x);
  }
}

void interleave_row(const InterleaveRow& row) {
  int x = 0;
  if (row.channels == 3) {
    for (; x + 4 <= row.width; x += 4) {
      const float* in = row.in + x;
      vst3q_f32(row.out + 3 * x,
                {{vld1q_f32(in), vld1q_f32(in + row.plane_stride), vld1q_f32(in + 2 * row.plane_stride)}});
    }
  }
  for (; x < row.width; ++x) {
    for (int c = 0; c < row.channels; ++c)
      row.out[static_cast<std::size_t>(x) * row.channels + c] = row.in[c * row.plane_stride + x];
  }
}

void normalise_row(const NormaliseRow& row) {
  int k = 0;
  for (; k + 8 <= row.count; k += 8) {
    const uint16x8_t bytes = vmovl_u8(vld1_u8(row.in + k));
    const float32x4_t low = vcvtq_f32_u32(vmovl_u16(vget_low_u16(bytes))), high = vcvtq_f32_u32(vmovl_high_u16(bytes));
    vst1q_f32(row.out + k, vfmaq_f32(vld1q_f32(row.shift + k), vld1q_f32(row.scale + k), low));
    vst1q_f32(row.out + k + 4, vfmaq_f32(vld1q_f32(row.shift + k + 4), vld1q_f32(row.scale + k + 4), high));
  }
  for (; k < row.count; ++k) row.out[k] = __builtin_fmaf(row.scale[k], static_cast<float>(row.in[k]), row.shift[k]);
}

}  // namespace

extern const BetweenKernels between__neon;
const BetweenKernels between__neon = {max_pool_row,   average_pool_row, sign_row, pointwise_row,
                                      interleave_row, normalise_row,    bend};

}  // namespace ftbnn
