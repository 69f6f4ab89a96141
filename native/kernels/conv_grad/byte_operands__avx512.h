// Operands of bytes in AVX-512: each ISA that multiplies them includes this and compiles it with its own flags.
#pragma once

#include "kernels/conv_grad/packed_operands__avx512.h"
#include "kernels/conv_grad/product.h"
#include "kernels/conv_grad/rounding.h"

namespace ftbnn {

namespace {

// 16 floats as bytes, as rounded_to_byte does it.
__m512i rounded(__m512 values, __m512 rates) {
  const __m512i mixed = _mm512_mullo_epi32(_mm512_castps_si512(values), _mm512_set1_epi32(static_cast<int>(ROUND_MIX)));
  const __m512i chance = _mm512_or_si512(_mm512_srli_epi32(mixed, 16), _mm512_set1_epi32(ROUND_BASE));
  return _mm512_cvttps_epi32(_mm512_add_ps(_mm512_mul_ps(values, rates), _mm512_castsi512_ps(chance)));
}

void find_largest(const float* from, std::size_t count, int channels, std::uint32_t* largest) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  constexpr int most = 4;  // vectors side by side
  for (int c = 0; c < channels; c += most * LANES) {
    __m512i found[most] = {};
    __mmask16 lanes[most];
    for (int j = 0; j < most; ++j) lanes[j] = first_lanes(channels - c - j * LANES);
    const float* row = from + c;
    for (std::size_t p = 0; p < count; ++p, row += channels) {
#pragma GCC unroll 4
      for (int j = 0; j < most; ++j) {
        const __m512i bits = _mm512_maskz_loadu_epi32(lanes[j], row + j * LANES);
        found[j] = _mm512_max_epu32(found[j], _mm512_and_si512(bits, magnitude));
      }
    }
    for (int j = 0; j < most; ++j) _mm512_mask_storeu_epi32(largest + c + j * LANES, lanes[j], found[j]);
  }
}

void pack_rows(const float* from, std::size_t from_stride, int count, int channels, const GradRows& to) {
  for (int p = 0; p < count; ++p, from += from_stride) {
    char* row = static_cast<char*>(to.at) + p * to.stride;
    const __m512 rate = _mm512_set1_ps(to.rates[p]);
    for (int c = 0; c < to.depth; c += LANES) {
      const __m512i bytes = rounded(_mm512_maskz_loadu_ps(first_lanes(channels - c), from + c), rate);
      _mm512_mask_cvtepi32_storeu_epi8(row + c, first_lanes(to.depth - c), bytes);
    }
  }
}

// Four positions' floats to dwords of four bytes.
struct Bytes {
  __m512i of(const __m512 (&floats)[4], int c, __mmask16 lanes) const {
    const __m512 rates = _mm512_maskz_loadu_ps(lanes, to.rates + c);
    const auto byte = [&](int i) { return rounded(floats[i], rates); };
    const __m512i even = _mm512_or_si512(byte(0), _mm512_slli_epi32(byte(2), 16));
    const __m512i odd = _mm512_or_si512(byte(1), _mm512_slli_epi32(byte(3), 16));
    return _mm512_or_si512(even, _mm512_slli_epi32(odd, 8));
  }
  const GradRows& to;
};

void pack_columns(const float* const* from, int count, int channels, const GradRows& to) {
  pack_columns<4>(from, count, channels, to, Bytes{to});
}

struct Quads : SignBits {
  static constexpr int packed = 4;
  static constexpr std::size_t row_bytes = GRAD_LANES * 4;

  explicit Quads(bool zero_one) : off(_mm512_set1_epi8(zero_one ? 0 : -1)) {}

  void store(void* to, const std::uint32_t (&bits)[packed], const bool (&exist)[packed]) const {
    // Byte j of a lane sees the byte of row j that has its bit, and asks for that.
    const auto two = [&](int j) { return static_cast<long long>(std::uint64_t{bits[j + 1]} << 32 | bits[j]); };
    const __m128i rows = _mm_set_epi64x(two(2), two(0));
    const __m512i all = _mm512_broadcast_i32x4(rows), of_row = _mm512_set1_epi32(0x0c080400);
    const __m512i byte_of_lane = _mm512_set_epi64(BYTE, BYTE, BYTE, BYTE, 0, 0, 0, 0);
    const __m512i own = _mm512_broadcast_i64x4(_mm256_set_epi64x(
        static_cast<long long>(0x8080808040404040), 0x2020202010101010, 0x0808080804040404, 0x0202020201010101));
    constexpr std::uint64_t every = 0x1111111111111111;
    __mmask64 there = 0;
    for (int j = 0; j < packed; ++j) there |= exist[j] ? every << j : 0;
    for (int half = 0; half < 2; ++half) {
      const __m512i source =
          _mm512_add_epi8(_mm512_add_epi8(of_row, byte_of_lane), _mm512_set1_epi8(static_cast<char>(2 * half)));
      const __mmask64 ones = _mm512_test_epi8_mask(_mm512_shuffle_epi8(all, source), own);
      const __m512i values = _mm512_mask_blend_epi8(ones, off, _mm512_set1_epi8(1));
      _mm512_store_si512(static_cast<char*>(to) + 64 * half, _mm512_maskz_mov_epi8(there, values));
    }
  }

  static constexpr long long BYTE = 0x0101010101010101;
  __m512i off;
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
  SumRow(const GradProduct& task, int row) : step(_mm512_set1_ps(task.steps[row])) {}
  __m512 operator()(__m512i sums, __m512i extra) const {
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(sums, extra)), step);
  }
  __m512 step;
};

// What all that multiply bytes have in common.
struct ByteMath {
  typedef __m512i Vector;
  typedef __m512 Floats;
  typedef SumRow Row;
  typedef int Dword;
  static constexpr int depth = 4;
  static Vector add(Vector a, Vector b) { return _mm512_add_epi32(a, b); }
};

template <typename Math>
constexpr GradKernels byte_kernels = {4,          4,       find_largest,      pack_rows, pack_columns, pack_codes,
                                      pack_signs, nothing, product<Math, 14>, nothing,   scatter,      roof<Math>};

}  // namespace

}  // namespace ftbnn
