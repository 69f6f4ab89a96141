// Tables by nibble: four bits of a weight choose a table of sixteen counts, four bits of a code are the index, and one
// vpshufb looks up as many positions as a vector has bytes. Two operations for four products a byte.
#pragma once

#include <immintrin.h>

#include "kernels/bconv/planes.h"

namespace ftbnn {

namespace {

constexpr int CHUNK = 4, SEGMENT = 63;  // channels; steps whose counts, 4 at most, fit into bytes

// Entry [w][a] is the number of bits of a OP w.
struct Tables {
  alignas(64) std::uint8_t of[2][16][16] = {};
  constexpr Tables() {
    for (int w = 0; w < 16; ++w) {
      for (int a = 0; a < 16; ++a) {
        for (int bit = 0; bit < 4; ++bit) {
          of[0][w][a] = static_cast<std::uint8_t>(of[0][w][a] + (((a ^ w) >> bit) & 1));
          of[1][w][a] = static_cast<std::uint8_t>(of[1][w][a] + (((a & w) >> bit) & 1));
        }
      }
    }
  }
};
constexpr Tables tables;

// Weights are offsets of tables, [rows that go together][step][row].
template <int ROWS>
std::size_t pack(const std::uint8_t* chunks, int channels, int steps, std::uint8_t* to) {
  const int parts = (channels + ROWS - 1) / ROWS;
  for (int part = 0, first = 0; part < parts && to != nullptr; ++part) {
    const int rows = (channels - first) / (parts - part);
    for (int step = 0; step < steps; ++step) {
      for (int r = 0; r < rows; ++r) *to++ = static_cast<std::uint8_t>(chunks[(first + r) * steps + step] << 4);
    }
    first += rows;
  }
  return static_cast<std::size_t>(channels) * static_cast<std::size_t>(steps);
}

// Eight words become eight times eight bytes of one channel, low and high nibbles apart.
void spread(const SpreadRow& row) {
  const __m128i nibbles = _mm_set1_epi8(0x0f);
  const auto store = [&](int chunk, int x, __m128i two, bool high) {
    if (chunk >= row.chunks) return;
    auto* to = reinterpret_cast<__m128i*>(row.to + static_cast<std::size_t>(chunk) * row.plane_bytes +
                                          static_cast<std::size_t>(x));
    high ? _mm_storeh_pd(reinterpret_cast<double*>(to), _mm_castsi128_pd(two)) : _mm_storel_epi64(to, two);
  };
  for (int word = 0; word * 16 < row.chunks; ++word) {
    const std::uint64_t* from = row.codes + word;
    int x = 0;
    for (; x + 8 <= row.width; x += 8) {
      __m128i w[8];
      for (int p = 0; p < 8; ++p) {
        w[p] = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + static_cast<std::size_t>(x + p) * row.step));
      }
      const __m128i b0 = _mm_unpacklo_epi8(w[0], w[1]), b1 = _mm_unpacklo_epi8(w[2], w[3]);
      const __m128i b2 = _mm_unpacklo_epi8(w[4], w[5]), b3 = _mm_unpacklo_epi8(w[6], w[7]);
      const __m128i c0 = _mm_unpacklo_epi16(b0, b1), c1 = _mm_unpackhi_epi16(b0, b1);
      const __m128i c2 = _mm_unpacklo_epi16(b2, b3), c3 = _mm_unpackhi_epi16(b2, b3);
      const __m128i bytes[4] = {_mm_unpacklo_epi32(c0, c2), _mm_unpackhi_epi32(c0, c2), _mm_unpacklo_epi32(c1, c3),
                                _mm_unpackhi_epi32(c1, c3)};
      for (int pair = 0; pair < 4; ++pair) {
        const __m128i low = _mm_and_si128(bytes[pair], nibbles);
        const __m128i high = _mm_and_si128(_mm_srli_epi16(bytes[pair], 4), nibbles);
        const int chunk = 16 * word + 4 * pair;
        store(chunk, x, low, false);
        store(chunk + 1, x, high, false);
        store(chunk + 2, x, low, true);
        store(chunk + 3, x, high, true);
      }
    }
    for (; x < row.width; ++x) {
      const std::uint64_t bits = from[static_cast<std::size_t>(x) * row.step];
      for (int k = 0; k < 16 && 16 * word + k < row.chunks; ++k) {
        row.to[static_cast<std::size_t>(16 * word + k) * row.plane_bytes + static_cast<std::size_t>(x)] =
            static_cast<std::uint8_t>(bits >> 4 * k & 15U);
      }
    }
  }
}

}  // namespace

}  // namespace ftbnn
