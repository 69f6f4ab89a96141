// Right operands with several elements to a dword: each ISA's file includes this and compiles it with its own flags.
//
// Codes says how rows of a right operand are stored, Codes::packed of them together in Codes::row_bytes: Codes::store
// takes the 32 bits of each, and whether it exists. Codes::find_signs(from, count, next, words) makes bits of floats, 1
// where they are above 0, in words that come as zeros; `next` is what will be read then.
#pragma once

#include <immintrin.h>

#include "kernels/conv_grad/lanes.h"

namespace ftbnn {

namespace {

template <typename Codes>
void pack_codes(const std::uint64_t* const* from, int count, int first, int words, const Codes& codes, void* to) {
  constexpr int packed = Codes::packed;
  char* row = static_cast<char*>(to);
  for (int k = 0; k < count; k += packed, row += Codes::row_bytes) {
    std::uint32_t bits[packed];
    bool exist[packed];
    for (int j = 0; j < packed; ++j) {
      exist[j] = from[k + j] != nullptr;
      bits[j] = exist[j] ? bits_at(from[k + j], first, words) : 0;
    }
    codes.store(row, bits, exist);
  }
}

// An output's proxies become a string of bits, from which every tap's are picked.
template <typename Codes>
void pack_signs(const float* proxies, std::size_t row, int outs, int lanes, int taps, const Codes& codes, void* to,
                std::size_t tap_stride, int depth) {
  constexpr int packed = Codes::packed;
  const int size = lanes * taps;
  std::uint64_t every = 0;  // each taps-th bit
  for (int bit = 0; bit < 64; bit += taps) every |= std::uint64_t{1} << bit;
  for (int o = 0; o < depth; o += packed) {
    std::uint64_t signs[packed][GRAD_LANES * GRAD_TAPS / 64] = {};
    bool exist[packed];
    for (int j = 0; j < packed; ++j) {
      exist[j] = o + j < outs;
      const float* from = proxies + (o + j) * row;
      if (exist[j]) Codes::find_signs(from, size, from + packed * row, signs[j]);
    }
    for (int tap = 0; tap < taps; ++tap) {
      std::uint32_t picked[packed] = {};
      int bit = tap, filled = 0;
      for (int word = 0; word * 64 < size; ++word, bit -= 64) {
        if (bit >= 64) continue;
        const std::uint64_t mask = every << bit;
        for (int j = 0; j < packed; ++j) {
          picked[j] |= static_cast<std::uint32_t>(_pext_u64(signs[j][word], mask) << filled);
        }
        const int count = static_cast<int>(_mm_popcnt_u64(mask));
        filled += count;
        bit += count * taps;
      }
      codes.store(static_cast<char*>(to) + (tap * tap_stride / GRAD_LANES + o) / packed * Codes::row_bytes, picked,
                  exist);
    }
  }
}

}  // namespace

}  // namespace ftbnn
