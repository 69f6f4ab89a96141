// Operands of bytes in AVX2: each ISA that multiplies them includes this and compiles it with its own flags.
#pragma once

#include <immintrin.h>

#include "kernels/conv_grad/packed_codes.h"
#include "kernels/conv_grad/product.h"
#include "kernels/conv_grad/rounding.h"
#include "kernels/conv_grad/scatter.h"

namespace ftbnn {

namespace {

constexpr int LANES = 8;  // dwords of a vector

// All bits in the first `count` lanes.
inline __m256i first_lanes(int count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

inline __m256 load_lanes(const float* from, int count) {
  return count >= LANES ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, first_lanes(count));
}

// 8 floats as bytes, as rounded_to_byte does it.
inline __m256i rounded(__m256 values, __m256 rates) {
  const __m256i mixed = _mm256_mullo_epi32(_mm256_castps_si256(values), _mm256_set1_epi32(static_cast<int>(ROUND_MIX)));
  const __m256i chance = _mm256_or_si256(_mm256_srli_epi32(mixed, 16), _mm256_set1_epi32(ROUND_BASE));
  return _mm256_cvttps_epi32(_mm256_add_ps(_mm256_mul_ps(values, rates), _mm256_castsi256_ps(chance)));
}

void find_largest(const float* from, std::size_t count, int channels, std::uint32_t* largest) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  constexpr int most = 4;  // vectors side by side
  int c = 0;
  for (; c + most * LANES <= channels; c += most * LANES) {
    __m256i found[most] = {};
    const float* row = from + c;
    for (std::size_t p = 0; p < count; ++p, row += channels) {
#pragma GCC unroll 4
      for (int j = 0; j < most; ++j) {
        const __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(row + j * LANES));
        found[j] = _mm256_max_epu32(found[j], _mm256_and_si256(bits, magnitude));
      }
    }
#pragma GCC unroll 4
    for (int j = 0; j < most; ++j) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(largest + c + j * LANES), found[j]);
    }
  }
  for (; c < channels; c += LANES) {
    const __m256i lanes = first_lanes(channels - c);
    __m256i found = _mm256_setzero_si256();
    const float* row = from + c;
    for (std::size_t p = 0; p < count; ++p, row += channels) {
      const __m256i bits = _mm256_castps_si256(_mm256_maskload_ps(row, lanes));
      found = _mm256_max_epu32(found, _mm256_and_si256(bits, magnitude));
    }
    _mm256_maskstore_epi32(reinterpret_cast<int*>(largest + c), lanes, found);
  }
}

void pack_rows(const float* from, std::size_t from_stride, int count, int channels, const GradRows& to) {
  const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  for (int p = 0; p < count; ++p, from += from_stride) {
    char* row = static_cast<char*>(to.at) + p * to.stride;
    const __m256 rate = _mm256_set1_ps(to.rates[p]);
    int c = 0;
    for (; c + 4 * LANES <= channels; c += 4 * LANES) {
      __m256i steps[4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) steps[j] = rounded(_mm256_loadu_ps(from + c + j * LANES), rate);
      const __m256i low = _mm256_packs_epi32(steps[0], steps[1]), high = _mm256_packs_epi32(steps[2], steps[3]);
      const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), in_order);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(row + c), bytes);
    }
    for (; c < to.depth; c += LANES) {
      const __m256i steps = rounded(load_lanes(from + c, channels - c), rate);
      const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(steps), _mm256_extracti128_si256(steps, 1));
      const __m128i bytes = _mm_packus_epi16(words, words);
      if (to.depth - c >= LANES) {
        _mm_storel_epi64(reinterpret_cast<__m128i*>(row + c), bytes);
      } else {
        _mm_storeu_si32(row + c, bytes);  // depths are multiples of 4
      }
    }
  }
}

// Rows of 8 dwords become columns.
inline void transpose(__m256i (&rows)[LANES]) {
  __m256i t[LANES];
  for (int k = 0; k < LANES; k += 2) {
    t[k] = _mm256_unpacklo_epi32(rows[k], rows[k + 1]);
    t[k + 1] = _mm256_unpackhi_epi32(rows[k], rows[k + 1]);
  }
  for (int k = 0; k < LANES; k += 4) {
    rows[k] = _mm256_unpacklo_epi64(t[k], t[k + 2]);
    rows[k + 1] = _mm256_unpackhi_epi64(t[k], t[k + 2]);
    rows[k + 2] = _mm256_unpacklo_epi64(t[k + 1], t[k + 3]);
    rows[k + 3] = _mm256_unpackhi_epi64(t[k + 1], t[k + 3]);
  }
  for (int k = 0; k < 4; ++k) {
    const __m256i low = rows[k], high = rows[k + 4];
    rows[k] = _mm256_permute2x128_si256(low, high, 0x20);
    rows[k + 4] = _mm256_permute2x128_si256(low, high, 0x31);
  }
}

// Four positions' floats to dwords of four bytes.
inline __m256i dwords_of(const __m256 (&floats)[4], __m256 rates) {
  const auto byte = [&](int i) { return rounded(floats[i], rates); };
  const __m256i even = _mm256_or_si256(byte(0), _mm256_slli_epi32(byte(2), 16));
  const __m256i odd = _mm256_or_si256(byte(1), _mm256_slli_epi32(byte(3), 16));
  return _mm256_or_si256(even, _mm256_slli_epi32(odd, 8));
}

// Columns of floats become rows of bytes, 32 positions x 8 channels at a time.
void pack_columns(const float* const* from, int count, int channels, const GradRows& to) {
  constexpr int packed = 4, block = packed * LANES;
  for (int k = 0; k < to.depth; k += block) {
    const __m256i stored = first_lanes((to.depth - k) / packed);
    for (int c = 0; c < channels; c += LANES) {
      const int lanes = channels - c;
      const __m256 rates = load_lanes(to.rates + c, lanes);
      __m256i rows[LANES];
      for (int j = 0; j < LANES; ++j) {
        __m256 floats[packed];
        for (int i = 0; i < packed; ++i) {
          const int at = k + packed * j + i, next = at + block;
          if (next < count && from[next] != nullptr) _mm_prefetch(from[next] + c, _MM_HINT_T0);
          const float* position = at < count ? from[at] : nullptr;
          floats[i] = position == nullptr ? _mm256_setzero_ps() : load_lanes(position + c, lanes);
        }
        rows[j] = dwords_of(floats, rates);
      }
      transpose(rows);
      char* column = static_cast<char*>(to.at) + c * to.stride + k;
      for (int j = 0; j < std::min(LANES, lanes); ++j) {
        _mm256_maskstore_epi32(reinterpret_cast<int*>(column + j * to.stride), stored, rows[j]);
      }
    }
  }
}

struct Quads {
  static constexpr int packed = 4;
  static constexpr std::size_t row_bytes = GRAD_LANES * 4;

  explicit Quads(bool zero_one) : off(_mm256_set1_epi8(zero_one ? 0 : -1)), rise(_mm256_set1_epi8(zero_one ? 1 : 2)) {}

  // In an order of lanes such that bytes of four rows, interleaved, come to lie as they should.
  __m256i values(std::uint32_t bits) const {
    const __m256i sources =
        _mm256_setr_epi32(0, 0x01010101, 0x02020202, 0x03030303, 0, 0x01010101, 0x02020202, 0x03030303);
    const __m128i low = _mm_set1_epi32(0x08040201), high = _mm_set1_epi32(static_cast<int>(0x80402010));
    const __m256i own = _mm256_set_m128i(high, low);
    const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(bits)), sources);
    const __m256i ones = _mm256_cmpeq_epi8(_mm256_and_si256(spread, own), own);
    return _mm256_add_epi8(off, _mm256_and_si256(ones, rise));
  }

  void store(void* to, const std::uint32_t (&bits)[packed], const bool (&exist)[packed]) const {
    __m256i rows[packed];
    for (int j = 0; j < packed; ++j) rows[j] = exist[j] ? values(bits[j]) : _mm256_setzero_si256();
    auto* at = static_cast<__m256i*>(to);
    const __m256i even = _mm256_unpacklo_epi8(rows[0], rows[1]), even_on = _mm256_unpackhi_epi8(rows[0], rows[1]);
    const __m256i odd = _mm256_unpacklo_epi8(rows[2], rows[3]), odd_on = _mm256_unpackhi_epi8(rows[2], rows[3]);
    _mm256_store_si256(at, _mm256_unpacklo_epi16(even, odd));
    _mm256_store_si256(at + 1, _mm256_unpackhi_epi16(even, odd));
    _mm256_store_si256(at + 2, _mm256_unpacklo_epi16(even_on, odd_on));
    _mm256_store_si256(at + 3, _mm256_unpackhi_epi16(even_on, odd_on));
  }

  static void find_signs(const float* from, int count, const float* next, std::uint64_t* words) {
    for (int k = 0; k < count; k += LANES) {
      if (k % 16 == 0) _mm_prefetch(next + k, _MM_HINT_T0);
      const __m256 above = _mm256_cmp_ps(load_lanes(from + k, count - k), _mm256_setzero_ps(), _CMP_GT_OQ);
      words[k / 64] |= static_cast<std::uint64_t>(_mm256_movemask_ps(above)) << k % 64;
    }
  }

  __m256i off, rise;
};

void pack_codes(const std::uint64_t* const* from, int count, int first, int words, bool zero_one, void* to) {
  pack_codes(from, count, first, words, Quads(zero_one), to);
}

void pack_signs(const float* proxies, std::size_t row, int outs, int lanes, int taps, void* to, std::size_t tap_stride,
                int depth) {
  pack_signs(proxies, row, outs, lanes, taps, Quads(false), to, tap_stride, depth);
}

// Sums of steps as floats.
struct SumRow {
  SumRow(const GradProduct& task, int row) : step(_mm256_set1_ps(task.steps[row])) {}
  __m256 operator()(__m256i sums, __m256i extra) const {
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(sums, extra)), step);
  }
  __m256 step;
};

// What all that multiply bytes have in common.
struct ByteMath {
  typedef __m256i Vector;
  typedef __m256 Floats;
  typedef SumRow Row;
  typedef int Dword;
  static constexpr int depth = 4;
  static Vector add(Vector a, Vector b) { return _mm256_add_epi32(a, b); }
};

template <typename Math>
constexpr GradKernels byte_kernels = {4,          4,       find_largest,     pack_rows, pack_columns, pack_codes,
                                      pack_signs, nothing, product<Math, 6>, nothing,   scatter,      roof<Math>};

}  // namespace

}  // namespace ftbnn
