// Operands with several elements to a dword, in AVX-512: what bf16 and bytes have in common. Each one's file includes
// this and compiles it with its own flags.
#pragma once

#include <immintrin.h>

#include <algorithm>

#include "kernels/conv_grad/packed_codes.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns of its own header
#endif

namespace ftbnn {

namespace {

constexpr int LANES = 16;  // dwords of a vector

inline __mmask16 first_lanes(int count) {
  return count >= LANES ? 0xffff : count <= 0 ? 0 : static_cast<__mmask16>((1U << count) - 1);
}

// Rows of 16 dwords become columns.
inline void transpose(__m512i (&rows)[LANES]) {
  __m512i t[LANES];
  for (int k = 0; k < LANES; k += 2) {
    t[k] = _mm512_unpacklo_epi32(rows[k], rows[k + 1]);
    t[k + 1] = _mm512_unpackhi_epi32(rows[k], rows[k + 1]);
  }
  for (int k = 0; k < LANES; k += 4) {
    rows[k] = _mm512_unpacklo_epi64(t[k], t[k + 2]);
    rows[k + 1] = _mm512_unpackhi_epi64(t[k], t[k + 2]);
    rows[k + 2] = _mm512_unpacklo_epi64(t[k + 1], t[k + 3]);
    rows[k + 3] = _mm512_unpackhi_epi64(t[k + 1], t[k + 3]);
  }
  for (int k = 0; k < 4; ++k) {
    t[k] = _mm512_shuffle_i32x4(rows[k], rows[k + 4], 0x88);
    t[k + 4] = _mm512_shuffle_i32x4(rows[k], rows[k + 4], 0xdd);
    t[k + 8] = _mm512_shuffle_i32x4(rows[k + 8], rows[k + 12], 0x88);
    t[k + 12] = _mm512_shuffle_i32x4(rows[k + 8], rows[k + 12], 0xdd);
  }
  for (int k = 0; k < 8; ++k) {
    rows[k] = _mm512_shuffle_i32x4(t[k], t[k + 8], 0x88);
    rows[k + 8] = _mm512_shuffle_i32x4(t[k], t[k + 8], 0xdd);
  }
}

// Columns of floats become rows of elements, 16 dwords x 16 channels at a time. Dwords::of makes one dword of each of
// 16 channels, `c` and on, from the floats of Packed positions.
template <int Packed, typename Dwords>
void pack_columns(const float* const* from, int count, int channels, const GradRows& to, const Dwords& dwords) {
  constexpr int block = Packed * LANES;
  for (int k = 0; k < to.depth; k += block) {
    const __mmask16 stored = first_lanes((to.depth - k) / Packed);
    for (int c = 0; c < channels; c += LANES) {
      const __mmask16 lanes = first_lanes(channels - c);
      const auto load = [&](int at) {
        const float* position = at < count ? from[at] : nullptr;
        return position == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(lanes, position + c);
      };
      __m512i rows[LANES];
      for (int j = 0; j < LANES; ++j) {
        __m512 floats[Packed];
        for (int i = 0; i < Packed; ++i) {
          const int at = k + Packed * j + i, next = at + block;
          if (next < count && from[next] != nullptr) _mm_prefetch(from[next] + c, _MM_HINT_T0);
          floats[i] = load(at);
        }
        rows[j] = dwords.of(floats, c, lanes);
      }
      transpose(rows);
      char* column = static_cast<char*>(to.at) + (c * to.stride + k) * 4 / Packed;
      for (int j = 0; j < std::min(LANES, channels - c); ++j) {
        _mm512_mask_storeu_epi32(column + j * to.stride * 4 / Packed, stored, rows[j]);
      }
    }
  }
}

struct SignBits {
  static void find_signs(const float* from, int count, const float* next, std::uint64_t* words) {
    for (int k = 0; k < count; k += LANES) {
      _mm_prefetch(next + k, _MM_HINT_T0);
      const __m512 values = _mm512_maskz_loadu_ps(first_lanes(count - k), from + k);
      const std::uint64_t mask = _mm512_cmp_ps_mask(values, _mm512_setzero_ps(), _CMP_GT_OQ);
      words[k / 64] |= mask << k % 64;
    }
  }
};

inline void scatter(const GradScatter& task) {
  scatter_by(task, [&](float* gx, const float* sums, std::uint32_t bits, int channels) {
    for (int half = 0; half < 2; ++half) {
      _mm_prefetch(gx + task.gx_n + LANES * half, _MM_HINT_T0);
      const __mmask16 own = first_lanes(channels - LANES * half);
      const __mmask16 mask = static_cast<__mmask16>(bits >> LANES * half);
      const __m512 old = _mm512_maskz_loadu_ps(task.adds ? own : 0, gx + LANES * half);
      const __m512 sum = _mm512_mask_add_ps(old, mask, old, _mm512_load_ps(sums + LANES * half));
      _mm512_mask_storeu_ps(gx + LANES * half, own, sum);
    }
  });
}

}  // namespace

}  // namespace ftbnn
