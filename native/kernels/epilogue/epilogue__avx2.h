// The epilogue with 8 channels to a vector: every AVX2 file with sums includes this.
#pragma once

#include <immintrin.h>

#include "kernels/epilogue/epilogue.h"

namespace ftbnn {

namespace {

constexpr int LANES = 8;  // floats of a vector

// Lanes below `count`, for masked loads and stores.
inline __m256i first_lanes(int count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// The first `count` of eight floats, 1 to 7. A masked store would cost AMD's cores dozens of operations.
inline void store_some(float* to, __m256 value, int count) {
  __m128 four = _mm256_castps256_ps128(value);
  if (count & 4) {
    _mm_storeu_ps(to, four);
    four = _mm256_extractf128_ps(value, 1);
    to += 4;
  }
  if (count & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), four);
    four = _mm_movehl_ps(four, four);
    to += 2;
  }
  if (count & 1) _mm_store_ss(to, four);
}

// Signs against the thresholds of the copies, of values that were put to memory for it: a loop in `finish`, where they
// are in registers, costs every tile of every network 2 %.
__attribute__((noinline)) inline void sign_copies(const Epilogue& end, int channels, int first, std::size_t x,
                                                  int positions, const float* y) {
  const unsigned exists = channels - first >= LANES ? 0xff : (1U << (channels - first)) - 1;
  for (int copy = 1; copy <= end.copies; ++copy) {
    const std::size_t n = static_cast<std::size_t>(copy);
    const __m256 threshold = _mm256_loadu_ps(threshold_of(end, copy) + first);
    std::uint32_t* codes = end.codes + x * end.codes_stride + n * end.copy_codes;
    for (int p = 0; p < positions; ++p, codes += end.codes_stride) {
      const __m256 above = _mm256_cmp_ps(_mm256_loadu_ps(y + p * LANES), threshold, _CMP_GT_OQ);
      const std::uint32_t signs = static_cast<std::uint32_t>(_mm256_movemask_ps(above)) & exists;
      if (first == 0) {
        *codes = signs;
      } else {
        reinterpret_cast<std::uint8_t*>(codes)[first / LANES] = static_cast<std::uint8_t>(signs);
      }
    }
  }
}

template <int Positions>
inline void bend(const float* left_slopes, const float* right_slopes, __m256 (&y)[Positions]) {
  const __m256 left = _mm256_loadu_ps(left_slopes), right = _mm256_loadu_ps(right_slopes);
#pragma GCC unroll 8
  for (int p = 0; p < Positions; ++p) {
    y[p] = _mm256_mul_ps(y[p], _mm256_blendv_ps(left, right, _mm256_cmp_ps(y[p], _mm256_setzero_ps(), _CMP_GT_OQ)));
  }
}

// Channels `first` to first + 7 of an epilogue, for some positions at a time. Each step takes all positions, so one
// branch serves them all and they stay in registers.
template <int Positions>
inline void finish(const Epilogue& end, int channels, int first, std::size_t x, __m256 (&y)[Positions]) {
  const bool full = channels - first >= LANES;
  const __m256i lanes = first_lanes(channels - first);
  const __m256 zero = _mm256_setzero_ps();
  const __m256 scale = _mm256_loadu_ps(end.scale + first), shift = _mm256_loadu_ps(end.shift + first);
#pragma GCC unroll 8
  for (int p = 0; p < Positions; ++p) y[p] = _mm256_fmadd_ps(scale, y[p], shift);
  if (end.first_left != nullptr) bend(end.first_left + first, end.first_right + first, y);
  if (end.shortcut != nullptr) {
    const std::size_t stride = end.shortcut_stride;
    const float* shortcut = end.shortcut + x * stride + first;
#pragma GCC unroll 8
    for (int p = 0; p < Positions; ++p) {
      const float* from = shortcut + p * stride;
      y[p] = _mm256_add_ps(y[p], full ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, lanes));
    }
  }
  if (end.act == Act::relu) {
#pragma GCC unroll 8
    for (int p = 0; p < Positions; ++p) y[p] = _mm256_and_ps(y[p], _mm256_cmp_ps(y[p], zero, _CMP_GT_OQ));
  } else if (end.act == Act::prelu) {
    const __m256 left = _mm256_loadu_ps(end.left + first);
#pragma GCC unroll 8
    for (int p = 0; p < Positions; ++p) {
      y[p] = _mm256_blendv_ps(_mm256_mul_ps(left, y[p]), y[p], _mm256_cmp_ps(y[p], zero, _CMP_GT_OQ));
    }
  } else if (end.act == Act::fprelu) {
    bend(end.left + first, end.right + first, y);
  } else if (end.act == Act::clamp) {
    const __m256 low = _mm256_set1_ps(end.low), high = _mm256_set1_ps(end.high);
#pragma GCC unroll 8
    for (int p = 0; p < Positions; ++p) {  // of two operands, what is not a number stays if it is the second
      y[p] = _mm256_min_ps(high, _mm256_max_ps(low, y[p]));
    }
  }
  if (end.after != nullptr) {
    const __m256 after = _mm256_loadu_ps(end.after + first);
#pragma GCC unroll 8
    for (int p = 0; p < Positions; ++p) y[p] = _mm256_add_ps(y[p], after);
  }
  if (end.out != nullptr) {
    const std::size_t stride = end.out_stride;
    float* out = end.out + x * stride + first;
    if (full) {
#pragma GCC unroll 8
      for (int p = 0; p < Positions; ++p) _mm256_storeu_ps(out + p * stride, y[p]);
    } else {
#pragma GCC unroll 8
      for (int p = 0; p < Positions; ++p) store_some(out + p * stride, y[p], channels - first);
    }
  }
  if (end.codes != nullptr) {
    const __m256 threshold = end.threshold != nullptr ? _mm256_loadu_ps(end.threshold + first) : zero;
    const std::size_t stride = end.codes_stride;
    std::uint32_t* codes = end.codes + x * stride;
    const unsigned exists = full ? 0xff : (1U << (channels - first)) - 1;
#pragma GCC unroll 8
    for (int p = 0; p < Positions; ++p) {
      const __m256 above = _mm256_cmp_ps(y[p], threshold, _CMP_GT_OQ);
      const std::uint32_t signs = static_cast<std::uint32_t>(_mm256_movemask_ps(above)) & exists;
      if (first == 0) {
        codes[p * stride] = signs;
      } else {
        reinterpret_cast<std::uint8_t*>(codes + p * stride)[first / LANES] = static_cast<std::uint8_t>(signs);
      }
    }
    if (end.copies > 0) {
      float kept[Positions * LANES];
#pragma GCC unroll 8
      for (int p = 0; p < Positions; ++p) _mm256_storeu_ps(kept + p * LANES, y[p]);
      sign_copies(end, channels, first, x, Positions, kept);
    }
  }
}

}  // namespace

}  // namespace ftbnn
