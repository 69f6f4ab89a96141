// Tables by nibble: four bits of a weight choose a table of sixteen counts, four bits of a code are the index, and one
// vpshufb looks up as many positions as a vector has bytes. Two operations for four products a byte.
#pragma once

#include "kernels/bconv/planes__x86.h"

namespace ftbnn {

namespace {

constexpr int CHUNK = 4, SEGMENT = 63;  // channels; steps whose counts, 4 at most, fit into bytes

// Entry [w][a] is the number of bits of a ^ w.
struct Tables {
  alignas(64) std::uint8_t of[16][16] = {};
  constexpr Tables() {
    for (int w = 0; w < 16; ++w) {
      for (int a = 0; a < 16; ++a) {
        for (int bit = 0; bit < 4; ++bit) {
          of[w][a] = static_cast<std::uint8_t>(of[w][a] + (((a ^ w) >> bit) & 1));
        }
      }
    }
  }
};
constexpr Tables tables;

// Weights are offsets of tables. Eight steps of up to eight channels at a time, as long as there are channels behind
// that may be read, and written over.
template <int Most>
std::size_t pack(const std::uint8_t* chunks, int channels, int steps, std::uint8_t* to) {
  const auto size = static_cast<std::size_t>(channels) * static_cast<std::size_t>(steps);
  if (to == nullptr) return size;
  const std::uint8_t *end = to + size, *from_end = chunks + size;
  const auto line = static_cast<std::size_t>(steps);
  in_parts<Most>(channels, [&](int first, int rows) {
    const std::uint8_t* from = chunks + static_cast<std::size_t>(first) * line;
    int step = 0;
    for (; rows <= 8 && step + 8 <= steps && from + 7 * line + 8 <= from_end && to + 7 * rows + 8 <= end;
         step += 8, from += 8) {
      __m128i bytes[4];
      transpose_bytes(from, line, bytes);
      for (const __m128i two : bytes) {
        const __m128i offsets = _mm_slli_epi16(two, 4);
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to), offsets);
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to + rows), _mm_unpackhi_epi64(offsets, offsets));
        to += 2 * rows;
      }
    }
    for (; step < steps; ++step, ++from) {
      for (int r = 0; r < rows; ++r) *to++ = static_cast<std::uint8_t>(from[static_cast<std::size_t>(r) * line] << 4);
    }
  });
  return size;
}

// 32 sums in bytes to sums of 16 bits, on a cache line or half of one.
inline void widen(__m256i bytes, bool adds, void* to) {
  __m256i low = _mm256_cvtepu8_epi16(_mm256_castsi256_si128(bytes));
  __m256i high = _mm256_cvtepu8_epi16(_mm256_extracti128_si256(bytes, 1));
  auto* at = static_cast<__m256i*>(to);
  if (adds) {
    low = _mm256_add_epi16(low, _mm256_load_si256(at));
    high = _mm256_add_epi16(high, _mm256_load_si256(at + 1));
  }
  _mm256_store_si256(at, low);
  _mm256_store_si256(at + 1, high);
}

[[maybe_unused]] void spread(const SpreadRow& row) { spread_chunks<CHUNK>(row); }

}  // namespace

}  // namespace ftbnn
