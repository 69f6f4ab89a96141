#include "kernels/conv_grad/bf16_operands.h"

#include "kernels/conv_grad/packed_operands__avx512.h"

namespace ftbnn::bf16 {

namespace {

// Two vectors of floats to one of bf16, the first one's values first.
__m512i rounded(__m512 first, __m512 second) { return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first)); }

constexpr std::uint64_t EVEN = 0x5555555555555555, ODD = ~EVEN;

struct Pairs : SignBits {
  static constexpr int packed = 2;
  static constexpr std::size_t row_bytes = GRAD_LANES * 4;

  explicit Pairs(bool zero_one) : one(_mm512_set1_epi16(0x3f80)), off(_mm512_set1_epi16(zero_one ? 0 : -0x4080)) {}

  void store(void* to, const std::uint32_t (&bits)[packed], const bool (&exist)[packed]) const {
    const std::uint64_t ones = _pdep_u64(bits[0], EVEN) | _pdep_u64(bits[1], ODD);
    const auto there = static_cast<__mmask32>((exist[0] ? EVEN : 0) | (exist[1] ? ODD : 0));
    for (int half = 0; half < 2; ++half) {
      const __m512i values = _mm512_mask_blend_epi16(static_cast<__mmask32>(ones >> 32 * half), off, one);
      _mm512_store_si512(static_cast<char*>(to) + 64 * half, _mm512_maskz_mov_epi16(there, values));
    }
  }

  __m512i one, off;
};

// Two positions' floats to dwords of both.
struct Interleaved {
  Interleaved() {
    alignas(64) std::uint16_t places[2 * LANES];
    for (int k = 0; k < 2 * LANES; ++k) places[k] = static_cast<std::uint16_t>(k / 2 + k % 2 * LANES);
    order = _mm512_load_si512(places);
  }
  __m512i of(const __m512 (&floats)[2], int, __mmask16) const {
    return _mm512_permutexvar_epi16(order, rounded(floats[0], floats[1]));
  }
  __m512i order;
};

}  // namespace

void pack_rows(const float* from, std::size_t from_stride, int count, int channels, const GradRows& to) {
  for (int p = 0; p < count; ++p, from += from_stride) {
    std::uint16_t* row = static_cast<std::uint16_t*>(to.at) + p * to.stride;
    for (int c = 0; c < to.depth; c += 2 * LANES) {
      const __m512 first = _mm512_maskz_loadu_ps(first_lanes(channels - c), from + c);
      const __m512 second = _mm512_maskz_loadu_ps(first_lanes(channels - c - LANES), from + c + LANES);
      const __mmask32 lanes = to.depth - c >= 2 * LANES ? ~0U : (1U << (to.depth - c)) - 1;
      _mm512_mask_storeu_epi16(row + c, lanes, rounded(first, second));
    }
  }
}

void pack_columns(const float* const* from, int count, int channels, const GradRows& to) {
  ftbnn::pack_columns<2>(from, count, channels, to, Interleaved());
}

void pack_codes(const std::uint64_t* const* from, int count, int first, int words, bool zero_one, void* to) {
  ftbnn::pack_codes(from, count, first, words, Pairs(zero_one), to);
}

void pack_signs(const float* proxies, std::size_t row, int outs, int lanes, int taps, void* to, std::size_t tap_stride,
                int depth) {
  ftbnn::pack_signs(proxies, row, outs, lanes, taps, Pairs(false), to, tap_stride, depth);
}

void scatter(const GradScatter& task) { ftbnn::scatter(task); }

}  // namespace ftbnn::bf16
