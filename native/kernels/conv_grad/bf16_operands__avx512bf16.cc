#include "kernels/conv_grad/bf16_operands.h"

#include <immintrin.h>

#include <algorithm>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns of its own header
#endif

namespace ftbnn::bf16 {

namespace {

constexpr int LANES = 16;  // floats of a vector

__mmask16 first_lanes(int count) {
  return count >= LANES ? 0xffff : count <= 0 ? 0 : static_cast<__mmask16>((1U << count) - 1);
}

// Two vectors of floats to one of bf16, the first one's values first.
__m512i rounded(__m512 first, __m512 second) { return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first)); }

// 32 bits that start anywhere.
std::uint32_t bits_at(const std::uint64_t* words, int first, int count) {
  const int word = first / 64, shift = first % 64;
  std::uint64_t bits = words[word] >> shift;
  if (shift > 32 && word + 1 < count) bits |= words[word + 1] << (64 - shift);
  return static_cast<std::uint32_t>(bits);
}

constexpr std::uint64_t EVEN = 0x5555555555555555, ODD = ~EVEN;

// Rows k and k + 1 of a right operand, where both exist: values by bits.
struct Pair {
  explicit Pair(float off) : one(_mm512_set1_epi16(0x3f80)), zero(_mm512_set1_epi16(off < 0 ? -0x4080 : 0)) {}
  void store(void* to, std::uint32_t even, std::uint32_t odd, std::uint32_t exist = ~0U) const {
    const std::uint64_t bits = _pdep_u64(even, EVEN) | _pdep_u64(odd, ODD);
    for (int half = 0; half < 2; ++half) {
      const __m512i values = _mm512_mask_blend_epi16(static_cast<__mmask32>(bits >> 32 * half), zero, one);
      _mm512_store_si512(static_cast<char*>(to) + 64 * half, _mm512_maskz_mov_epi16(exist, values));
    }
  }
  __m512i one, zero;
};

// Rows of 16 dwords become columns.
void transpose(__m512i (&rows)[LANES]) {
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

}  // namespace

void pack_rows(const float* from, std::size_t from_stride, int count, int channels, void* to, std::size_t to_stride,
               int depth) {
  for (int p = 0; p < count; ++p, from += from_stride) {
    std::uint16_t* row = static_cast<std::uint16_t*>(to) + p * to_stride;
    for (int c = 0; c < depth; c += 2 * LANES) {
      const __m512 first = _mm512_maskz_loadu_ps(first_lanes(channels - c), from + c);
      const __m512 second = _mm512_maskz_loadu_ps(first_lanes(channels - c - LANES), from + c + LANES);
      const __mmask32 lanes = depth - c >= 2 * LANES ? ~0U : (1U << (depth - c)) - 1;
      _mm512_mask_storeu_epi16(row + c, lanes, rounded(first, second));
    }
  }
}

// 32 positions x 16 channels at a time: pairs of positions as dwords, then a transpose.
void pack_columns(const float* const* from, int count, int channels, void* to, std::size_t to_stride, int depth) {
  alignas(64) std::uint16_t order[2 * LANES];
  for (int k = 0; k < 2 * LANES; ++k) order[k] = static_cast<std::uint16_t>(k / 2 + k % 2 * LANES);
  const __m512i interleave = _mm512_load_si512(order);
  for (int k = 0; k < depth; k += 2 * LANES) {
    const __mmask16 stored = first_lanes((depth - k) / 2);
    for (int c = 0; c < channels; c += LANES) {
      const __mmask16 lanes = first_lanes(channels - c);
      const auto load = [&](int at) {
        const float* position = at < count ? from[at] : nullptr;
        return position == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(lanes, position + c);
      };
      const auto prefetch = [&](int at) {
        if (at < count && from[at] != nullptr) _mm_prefetch(from[at] + c, _MM_HINT_T0);
      };
      __m512i rows[LANES];
      for (int j = 0; j < LANES; ++j) {
        prefetch(k + 2 * (j + LANES)), prefetch(k + 2 * (j + LANES) + 1);
        rows[j] = _mm512_permutexvar_epi16(interleave, rounded(load(k + 2 * j), load(k + 2 * j + 1)));
      }
      transpose(rows);
      std::uint16_t* column = static_cast<std::uint16_t*>(to) + c * to_stride + k;
      for (int j = 0; j < std::min(LANES, channels - c); ++j) {
        _mm512_mask_storeu_epi32(column + j * to_stride, stored, rows[j]);
      }
    }
  }
}

void pack_codes(const std::uint64_t* const* from, int count, int first, int words, bool zero_one, void* to) {
  const Pair pair(zero_one ? 0.0F : -1.0F);
  char* row = static_cast<char*>(to);
  for (int k = 0; k < count; k += 2, row += 128) {
    const std::uint32_t even = from[k] == nullptr ? 0 : bits_at(from[k], first, words);
    const std::uint32_t odd = from[k + 1] == nullptr ? 0 : bits_at(from[k + 1], first, words);
    const std::uint64_t exist = (from[k] == nullptr ? 0 : EVEN) | (from[k + 1] == nullptr ? 0 : ODD);
    pair.store(row, even, odd, static_cast<std::uint32_t>(exist));
  }
}

// An output's proxies become a string of bits, from which every tap's are picked.
void pack_signs(const float* proxies, std::size_t row, int outs, int lanes, int taps, void* to, std::size_t tap_stride,
                int depth) {
  const Pair pair(-1.0F);
  const int size = lanes * taps;
  std::uint64_t every = 0;  // each taps-th bit
  for (int bit = 0; bit < 64; bit += taps) every |= std::uint64_t{1} << bit;
  for (int o = 0; o < depth; o += 2) {
    std::uint64_t signs[2][GRAD_LANES * GRAD_TAPS / 64] = {};
    for (int j = 0; j < 2; ++j) {
      const float* from = proxies + (o + j) * row;
      for (int k = 0; k < size && o + j < outs; k += LANES) {
        _mm_prefetch(from + 2 * row + k, _MM_HINT_T0);
        const __m512 values = _mm512_maskz_loadu_ps(first_lanes(size - k), from + k);
        const std::uint64_t mask = _mm512_cmp_ps_mask(values, _mm512_setzero_ps(), _CMP_GT_OQ);
        signs[j][k / 64] |= mask << k % 64;
      }
    }
    for (int tap = 0; tap < taps; ++tap) {
      std::uint64_t picked[2] = {};
      int bit = tap, filled = 0;
      for (int word = 0; word * 64 < size; ++word, bit -= 64) {
        if (bit >= 64) continue;
        const std::uint64_t mask = every << bit;
        picked[0] |= _pext_u64(signs[0][word], mask) << filled;
        picked[1] |= _pext_u64(signs[1][word], mask) << filled;
        const int count = static_cast<int>(_mm_popcnt_u64(mask));
        filled += count;
        bit += count * taps;
      }
      const std::uint64_t exist = (o < outs ? EVEN : 0) | (o + 1 < outs ? ODD : 0);
      pair.store(static_cast<std::uint16_t*>(to) + tap * tap_stride + o * GRAD_LANES,
                 static_cast<std::uint32_t>(picked[0]), static_cast<std::uint32_t>(picked[1]),
                 static_cast<std::uint32_t>(exist));
    }
  }
}

void scatter(const GradScatter& task) {
  const int words = (task.first + task.channels + 63) / 64;
  for (int n = 0; n < task.ns; ++n) {
    for (int x = 0; x < task.xs; ++x) {
      const float* sums = task.sums + (x * task.ns + n) * GRAD_LANES;
      float* gx = task.gx + x * task.gx_x + n * task.gx_n;
      const std::uint64_t* inside = task.inside + x * task.inside_x + n * task.inside_n;
      for (int c = 0; c < task.channels; c += GRAD_LANES, sums += task.product_size, gx += GRAD_LANES) {
        const std::uint32_t bits = bits_at(inside, task.first + c, words);
        for (int half = 0; half < 2; ++half) {
          _mm_prefetch(gx + task.gx_n + LANES * half, _MM_HINT_T0);
          const __mmask16 own = first_lanes(task.channels - c - LANES * half);
          const __mmask16 mask = static_cast<__mmask16>(bits >> LANES * half);
          const __m512 old = _mm512_maskz_loadu_ps(own, gx + LANES * half);
          const __m512 sum = _mm512_mask_add_ps(old, mask, old, _mm512_load_ps(sums + LANES * half));
          _mm512_mask_storeu_ps(gx + LANES * half, own, sum);
        }
      }
    }
  }
}

}  // namespace ftbnn::bf16
