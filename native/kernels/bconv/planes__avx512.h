// What kernels of planes with 512-bit vectors have in common: what follows their counts, in blocks of 128 positions.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in GCC 12's own header of intrinsics
#endif
#include "kernels/bconv/planes__x86.h"
#include "kernels/epilogue/epilogue__avx512.h"

namespace ftbnn {

namespace {

constexpr int BLOCK = 128, ROWS = 12;  // 12 x 2 vectors of sums, 2 of codes, a weight or table of 32 registers

inline void widen(__m512i bytes, bool adds, std::int16_t* to) {
  __m512i low = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(bytes));
  __m512i high = _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(bytes, 1));
  if (adds) {
    low = _mm512_add_epi16(low, _mm512_load_si512(to));
    high = _mm512_add_epi16(high, _mm512_load_si512(to + 32));
  }
  _mm512_store_si512(to, low);
  _mm512_store_si512(to + 32, high);
}

// The sums of up to ROWS channels. A Counter has how it keeps a weight (Weight), the most that a step may add (MOST),
// spread(weight) to a vector, count(vector, codes) in bytes.
template <typename Counter, int Rows, int Vectors>
__attribute__((noinline)) void count_rows(const CountBlock& block, const typename Counter::Weight* weights,
                                          std::int16_t* sums) {
  constexpr int segment = 255 / Counter::MOST;  // steps whose counts fit into bytes
  for (int start = 0; start < block.steps; start += segment) {
    const int end = start + segment < block.steps ? start + segment : block.steps;
    __m512i acc[Rows][Vectors];
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      for (int v = 0; v < Vectors; ++v) acc[r][v] = _mm512_setzero_si512();
    }
    for (int k = start; k < end; ++k, weights += Rows) {
      const std::uint8_t* in = block.codes + block.offsets[k];
      __m512i codes[Vectors];
      for (int v = 0; v < Vectors; ++v) codes[v] = _mm512_loadu_si512(in + 64 * v);
#pragma GCC unroll 12
      for (int r = 0; r < Rows; ++r) {
        const __m512i weight = Counter::spread(weights[r]);
        for (int v = 0; v < Vectors; ++v) {
          acc[r][v] = _mm512_add_epi8(acc[r][v], Counter::count(weight, codes[v]));
          __asm__("" : "+v"(acc[r][v]));  // or GCC spills
        }
      }
    }
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      for (int v = 0; v < Vectors; ++v) widen(acc[r][v], start > 0, sums + r * BLOCK + 64 * v);
    }
  }
}

template <typename Counter, int Vectors>
void count_vectors(const CountBlock& block) {
  static constexpr decltype(&count_rows<Counter, 1, 1>) kernels[ROWS] = {
      count_rows<Counter, 1, Vectors>,  count_rows<Counter, 2, Vectors>,  count_rows<Counter, 3, Vectors>,
      count_rows<Counter, 4, Vectors>,  count_rows<Counter, 5, Vectors>,  count_rows<Counter, 6, Vectors>,
      count_rows<Counter, 7, Vectors>,  count_rows<Counter, 8, Vectors>,  count_rows<Counter, 9, Vectors>,
      count_rows<Counter, 10, Vectors>, count_rows<Counter, 11, Vectors>, count_rows<Counter, 12, Vectors>};
  const auto* weights = reinterpret_cast<const typename Counter::Weight*>(block.weights);
  in_parts<ROWS>(block.channels, [&](int first, int rows) {
    kernels[rows - 1](block, weights, block.sums + first * BLOCK);
    weights += static_cast<std::size_t>(rows) * static_cast<std::size_t>(block.steps);
  });
}

template <typename Counter>
void count_block(const CountBlock& block) {
  block.positions > BLOCK / 2 ? count_vectors<Counter, 2>(block) : count_vectors<Counter, 1>(block);
}

// Sixteen rows of sixteen 16-bit numbers become columns: v[p] is columns p and 8 + p.
inline void transpose(const std::int16_t* from, std::size_t stride, __m512i (&v)[8]) {
  __m512i t[8], u[8];
#pragma GCC unroll 8
  for (std::size_t k = 0; k < 8; ++k) {
    const auto* low = reinterpret_cast<const __m256i*>(from + k * stride);
    const auto* high = reinterpret_cast<const __m256i*>(from + (k + 8) * stride);
    v[k] = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256(low)), _mm256_loadu_si256(high), 1);
  }
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    t[2 * k] = _mm512_unpacklo_epi16(v[2 * k], v[2 * k + 1]);
    t[2 * k + 1] = _mm512_unpackhi_epi16(v[2 * k], v[2 * k + 1]);
  }
#pragma GCC unroll 2
  for (int k = 0; k < 2; ++k) {
    u[4 * k] = _mm512_unpacklo_epi32(t[4 * k], t[4 * k + 2]);
    u[4 * k + 1] = _mm512_unpackhi_epi32(t[4 * k], t[4 * k + 2]);
    u[4 * k + 2] = _mm512_unpacklo_epi32(t[4 * k + 1], t[4 * k + 3]);
    u[4 * k + 3] = _mm512_unpackhi_epi32(t[4 * k + 1], t[4 * k + 3]);
  }
  // Of each lane of 128 bits now the rows 0 to 7 or 8 to 15, the columns 0 to 7 or 8 to 15.
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    const __m512i even = _mm512_unpacklo_epi64(u[k], u[k + 4]), odd = _mm512_unpackhi_epi64(u[k], u[k + 4]);
    v[2 * k] = _mm512_shuffle_i64x2(even, even, 0xd8);
    v[2 * k + 1] = _mm512_shuffle_i64x2(odd, odd, 0xd8);
  }
}

// Counts of `Positions` positions to sums, then the epilogue.
template <int Positions>
__attribute__((noinline)) void finish_some(const FinishPlanes& row, int first, int x, const std::int16_t* counts) {
  const __m512 worth = _mm512_set1_ps(row.worth);
  const std::uint8_t* border = row.border + x;
  __m512 y[Positions];
#pragma GCC unroll 8
  for (int p = 0; p < Positions; ++p) {
    const __m256i count = _mm256_load_si256(reinterpret_cast<const __m256i*>(counts + p * LANES));
    y[p] = _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi16_epi32(0xffff, count));
  }
  if (border[0] == border[Positions - 1]) {  // and so all between
    const __m512 base = _mm512_loadu_ps(row.base + border[0] * PANEL + first);
#pragma GCC unroll 8
    for (int p = 0; p < Positions; ++p) y[p] = _mm512_fnmadd_ps(worth, y[p], base);
  } else {
#pragma GCC unroll 8
    for (int p = 0; p < Positions; ++p) {
      y[p] = _mm512_fnmadd_ps(worth, y[p], _mm512_loadu_ps(row.base + border[p] * PANEL + first));
    }
  }
  ftbnn::finish(row.end, row.channels, first, static_cast<std::size_t>(x), y);
}

// Sixteen positions, or those that a row has left, in two halves: 14 are twice 7, which no smaller parts do as fast.
void finish(const FinishPlanes& row) {
  static constexpr decltype(&finish_some<1>) some[8] = {finish_some<1>, finish_some<2>, finish_some<3>, finish_some<4>,
                                                        finish_some<5>, finish_some<6>, finish_some<7>, finish_some<8>};
  alignas(64) std::int16_t counts[16 * LANES];
  for (int x = 0; x < row.width; x += 16) {
    const int left = row.width - x < 16 ? row.width - x : 16, half = left <= 8 ? left : (left + 1) / 2;
    for (int first = 0; first < row.channels; first += LANES) {
      __m512i columns[8];
      transpose(row.sums + static_cast<std::size_t>(first) * row.sums_stride + x, row.sums_stride, columns);
#pragma GCC unroll 8
      for (int p = 0; p < 8; ++p) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(counts + p * LANES), _mm512_castsi512_si256(columns[p]));
        _mm256_store_si256(reinterpret_cast<__m256i*>(counts + (8 + p) * LANES),
                           _mm512_extracti64x4_epi64(columns[p], 1));
      }
      some[half - 1](row, first, x, counts);
      if (half < left) some[left - half - 1](row, first, x + half, counts + half * LANES);
    }
  }
}

}  // namespace

}  // namespace ftbnn
