// The epilogue with 16 channels to a vector: every AVX-512 file with sums includes this.
#pragma once

#include <immintrin.h>

#include "kernels/epilogue/epilogue.h"

namespace ftbnn {

namespace {

constexpr int LANES = 16;  // floats of a vector; a panel is two halves of so many channels

inline __mmask16 first_lanes(int count) { return count >= LANES ? 0xffff : static_cast<__mmask16>((1U << count) - 1); }

// Or GCC makes the addresses of all positions beforehand, more than there are registers.
template <typename Pointer>
inline void step_by_step(Pointer& pointer) {
  __asm__("" : "+r"(pointer));
}

// Signs against the thresholds of the copies, of values that were put to memory for it: a loop in `finish`, where they
// are in registers, costs every tile of every network 2 %.
__attribute__((noinline)) inline void sign_copies(const Epilogue& end, int channels, int first, std::size_t x,
                                                  int positions, const float* y) {
  const __mmask16 lanes = first_lanes(channels - first);
  const bool is_last = first == 0 && channels <= LANES;  // the second half's signs are 0
  for (int copy = 1; copy <= end.copies; ++copy) {
    const std::size_t n = static_cast<std::size_t>(copy);
    const __m512 threshold = _mm512_loadu_ps(threshold_of(end, copy) + first);
    auto* codes =
        reinterpret_cast<std::uint16_t*>(end.codes + x * end.codes_stride + n * end.copy_codes) + first / LANES;
    for (int p = 0; p < positions; ++p, codes += 2 * end.codes_stride) {
      const __m512 value = _mm512_loadu_ps(y + p * LANES);
      codes[0] = static_cast<std::uint16_t>(_mm512_mask_cmp_ps_mask(lanes, value, threshold, _CMP_GT_OQ));
      if (is_last) codes[1] = 0;
    }
  }
}

template <int Positions>
__attribute__((always_inline)) inline void bend(const float* left_slopes, const float* right_slopes,
                                                __m512 (&y)[Positions]) {
  const __m512 left = _mm512_loadu_ps(left_slopes), right = _mm512_loadu_ps(right_slopes);
#pragma GCC unroll 16
  for (int p = 0; p < Positions; ++p) {
    const __mmask16 positive = _mm512_cmp_ps_mask(y[p], _mm512_setzero_ps(), _CMP_GT_OQ);
    y[p] = _mm512_mul_ps(y[p], _mm512_mask_blend_ps(positive, left, right));
  }
}

// Channels `first` to first + 15 of an epilogue, for some positions at a time. Each step takes all positions, so one
// branch serves them all and they stay in registers (which they do only if GCC is told to unroll).
template <int Positions>
__attribute__((always_inline)) inline void finish(const Epilogue& end, int channels, int first, std::size_t x,
                                                  __m512 (&y)[Positions]) {
  const bool full = channels - first >= LANES;
  const __mmask16 lanes = first_lanes(channels - first);
  const __m512 zero = _mm512_setzero_ps();
  const __m512 scale = _mm512_loadu_ps(end.scale + first), shift = _mm512_loadu_ps(end.shift + first);
#pragma GCC unroll 16
  for (int p = 0; p < Positions; ++p) y[p] = _mm512_fmadd_ps(scale, y[p], shift);
  if (end.first_left != nullptr) bend(end.first_left + first, end.first_right + first, y);
  if (end.shortcut != nullptr) {
    const std::size_t stride = end.shortcut_stride;
    const float* from = end.shortcut + x * stride + first;
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p, from += stride) {
      step_by_step(from);
      y[p] = _mm512_add_ps(y[p], full ? _mm512_loadu_ps(from) : _mm512_maskz_loadu_ps(lanes, from));
    }
  }
  if (end.act == Act::relu) {
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) {
      y[p] = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y[p], zero, _CMP_GT_OQ), y[p]);
    }
  } else if (end.act == Act::prelu) {
    const __m512 left = _mm512_loadu_ps(end.left + first);
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) {
      y[p] = _mm512_mask_mul_ps(y[p], _mm512_cmp_ps_mask(y[p], zero, _CMP_NGT_UQ), y[p], left);
    }
  } else if (end.act == Act::fprelu) {
    bend(end.left + first, end.right + first, y);
  } else if (end.act == Act::clamp) {
    const __m512 low = _mm512_set1_ps(end.low), high = _mm512_set1_ps(end.high);
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) {  // of two operands, what is not a number stays if it is the second
      y[p] = _mm512_maskz_min_ps(0xffff, high, _mm512_maskz_max_ps(0xffff, low, y[p]));
    }
  }
  if (end.after != nullptr) {
    const __m512 after = _mm512_loadu_ps(end.after + first);
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) y[p] = _mm512_add_ps(y[p], after);
  }
  if (end.out != nullptr) {
    const std::size_t stride = end.out_stride;
    float* out = end.out + x * stride + first;
    if (full) {  // masked stores are slow
#pragma GCC unroll 16
      for (int p = 0; p < Positions; ++p, out += stride) {
        step_by_step(out);
        _mm512_storeu_ps(out, y[p]);
      }
    } else {
#pragma GCC unroll 16
      for (int p = 0; p < Positions; ++p) _mm512_mask_storeu_ps(out + p * stride, lanes, y[p]);
    }
  }
  if (end.codes != nullptr) {
    const __m512 threshold = end.threshold != nullptr ? _mm512_loadu_ps(end.threshold + first) : zero;
    const std::size_t stride = end.codes_stride;
    auto* codes = reinterpret_cast<std::uint16_t*>(end.codes + x * stride) + first / LANES;
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p, codes += 2 * stride) {
      step_by_step(codes);
      *codes = static_cast<std::uint16_t>(_mm512_mask_cmp_ps_mask(lanes, y[p], threshold, _CMP_GT_OQ));
    }
    // Of a panel that ends in its first half the second half's signs are 0.
    if (first == 0 && channels <= LANES) {
      codes = reinterpret_cast<std::uint16_t*>(end.codes + x * stride) + 1;
      for (int p = 0; p < Positions; ++p, codes += 2 * stride) *codes = 0;
    }
    if (end.copies > 0) {
      float kept[Positions * LANES];
#pragma GCC unroll 16
      for (int p = 0; p < Positions; ++p) _mm512_storeu_ps(kept + p * LANES, y[p]);
      sign_copies(end, channels, first, x, Positions, kept);
    }
  }
}

}  // namespace

}  // namespace ftbnn
