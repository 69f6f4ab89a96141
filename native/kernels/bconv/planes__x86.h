// What kernels of planes have in common on x86: rows of weights in parts, and words of codes to bytes of one chunk.
#pragma once

#include <immintrin.h>

#include "kernels/bconv/planes.h"

namespace ftbnn {

namespace {

// Output channels in as few parts of up to Most as it takes, of nearly equal sizes: part(first channel, channels).
template <int Most, typename Part>
inline void in_parts(int channels, const Part& part) {
  const int parts = (channels + Most - 1) / Most;
  for (int n = 0, first = 0; n < parts; ++n) {
    const int rows = (channels - first) / (parts - n);
    part(first, rows);
    first += rows;
  }
}

// Eight rows of eight bytes, `step` bytes apart, become eight times eight bytes: byte k of all of them is half k % 2 of
// bytes[k / 2].
inline void transpose_bytes(const void* from, std::size_t step, __m128i (&bytes)[4]) {
  const auto* rows = static_cast<const std::uint8_t*>(from);
  __m128i w[8];
  for (std::size_t p = 0; p < 8; ++p) w[p] = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(rows + p * step));
  const __m128i b0 = _mm_unpacklo_epi8(w[0], w[1]), b1 = _mm_unpacklo_epi8(w[2], w[3]);
  const __m128i b2 = _mm_unpacklo_epi8(w[4], w[5]), b3 = _mm_unpacklo_epi8(w[6], w[7]);
  const __m128i c0 = _mm_unpacklo_epi16(b0, b1), c1 = _mm_unpackhi_epi16(b0, b1);
  const __m128i c2 = _mm_unpacklo_epi16(b2, b3), c3 = _mm_unpackhi_epi16(b2, b3);
  bytes[0] = _mm_unpacklo_epi32(c0, c2);
  bytes[1] = _mm_unpackhi_epi32(c0, c2);
  bytes[2] = _mm_unpacklo_epi32(c1, c3);
  bytes[3] = _mm_unpackhi_epi32(c1, c3);
}

// Weights [channel][step] as [part][step][channel], each as `make` has it.
template <int Most, typename Weight, typename Make>
inline std::size_t pack_parts(const std::uint8_t* chunks, int channels, int steps, std::uint8_t* to, const Make& make) {
  auto* weights = reinterpret_cast<Weight*>(to);
  if (to != nullptr) {
    in_parts<Most>(channels, [&](int first, int rows) {
      for (int step = 0; step < steps; ++step) {
        for (int r = 0; r < rows; ++r) *weights++ = static_cast<Weight>(make(chunks[(first + r) * steps + step]));
      }
    });
  }
  return static_cast<std::size_t>(channels) * static_cast<std::size_t>(steps) * sizeof(Weight);
}

// Planes of chunks of Bits bits, eight positions at a time.
template <int Bits>
inline void spread_chunks(const SpreadRow& row) {
  constexpr int chunks_a_word = 64 / Bits, chunks_a_byte = 8 / Bits;
  const __m128i mask = _mm_set1_epi8(static_cast<char>((1U << Bits) - 1));
  const auto plane = [&](int chunk, int x) {
    return row.to + static_cast<std::size_t>(chunk) * row.plane_bytes + static_cast<std::size_t>(x);
  };
  for (int word = 0; word * chunks_a_word < row.chunks; ++word) {
    const std::uint64_t* from = row.codes + word;
    const int first = word * chunks_a_word;
    const int last = row.chunks - first < chunks_a_word ? row.chunks - first : chunks_a_word;
    int x = 0;
    for (; x + 8 <= row.width; x += 8) {
      __m128i bytes[4];
      transpose_bytes(from + static_cast<std::size_t>(x) * row.step, row.step * sizeof *from, bytes);
      for (int k = 0; k < last; ++k) {
        const int byte = k / chunks_a_byte;
        __m128i two = bytes[byte / 2];
        if (k % chunks_a_byte == 1) two = _mm_srli_epi16(two, Bits);
        two = _mm_and_si128(two, mask);
        std::uint8_t* to = plane(first + k, x);
        if (byte % 2 == 1) two = _mm_unpackhi_epi64(two, two);
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to), two);
      }
    }
    for (; x < row.width; ++x) {
      const std::uint64_t bits = from[static_cast<std::size_t>(x) * row.step];
      for (int k = 0; k < last; ++k) {
        *plane(first + k, x) = static_cast<std::uint8_t>(bits >> Bits * k & ((1U << Bits) - 1));
      }
    }
  }
}

}  // namespace

}  // namespace ftbnn
