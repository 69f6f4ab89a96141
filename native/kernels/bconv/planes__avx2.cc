// Tables by nibble, 32 positions a vector: vpshufb and vpaddb for 128 products.
#include "kernels/bconv/planes__nibbles.h"

#include <climits>

#include "kernels/epilogue/epilogue__avx2.h"

namespace ftbnn {

namespace {

constexpr int BLOCK = 64, ROWS = 6;  // 6 x 2 vectors of sums, 2 of codes, a table of 16 registers

// A function of its own, and sums that pass through an empty instruction: or GCC spills them.
template <int Rows, int Vectors>
__attribute__((noinline)) void count_rows(const std::uint8_t* codes, const std::uint32_t* offsets,
                                          const std::uint8_t* weights, int steps, const std::uint8_t* table,
                                          std::int16_t* sums) {
  for (int start = 0; start < steps; start += SEGMENT) {
    const int end = start + SEGMENT < steps ? start + SEGMENT : steps;
    __m256i acc[Rows][Vectors];
#pragma GCC unroll 6
    for (int r = 0; r < Rows; ++r) {
      for (int v = 0; v < Vectors; ++v) acc[r][v] = _mm256_setzero_si256();
    }
    for (int k = start; k < end; ++k, weights += Rows) {
      const auto* in = reinterpret_cast<const __m256i*>(codes + offsets[k]);
      __m256i a[Vectors];
      for (int v = 0; v < Vectors; ++v) a[v] = _mm256_loadu_si256(in + v);
#pragma GCC unroll 6
      for (int r = 0; r < Rows; ++r) {
        const __m256i counts =
            _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table + weights[r])));
        for (int v = 0; v < Vectors; ++v) {
          acc[r][v] = _mm256_add_epi8(acc[r][v], _mm256_shuffle_epi8(counts, a[v]));
          __asm__("" : "+x"(acc[r][v]));
        }
      }
    }
#pragma GCC unroll 6
    for (int r = 0; r < Rows; ++r) {
      for (int v = 0; v < Vectors; ++v) widen(acc[r][v], start > 0, sums + r * BLOCK + 32 * v);
    }
  }
}

template <int Vectors>
void count_block(const CountBlock& block) {
  static constexpr decltype(&count_rows<1, 1>) kernels[ROWS] = {count_rows<1, Vectors>, count_rows<2, Vectors>,
                                                                count_rows<3, Vectors>, count_rows<4, Vectors>,
                                                                count_rows<5, Vectors>, count_rows<6, Vectors>};
  const std::uint8_t* weights = block.weights;
  in_parts<ROWS>(block.channels, [&](int first, int rows) {
    kernels[rows - 1](block.codes, block.offsets, weights, block.steps, tables.of[0], block.sums + first * BLOCK);
    weights += static_cast<std::size_t>(rows) * static_cast<std::size_t>(block.steps);
  });
}

void count(const CountBlock& block) { block.positions > BLOCK / 2 ? count_block<2>(block) : count_block<1>(block); }

// Eight rows of sixteen 16-bit numbers become columns: v[p] is columns p and 8 + p.
inline void transpose(const std::int16_t* from, std::size_t stride, __m256i (&v)[8]) {
  __m256i t[8], u[8];
#pragma GCC unroll 8
  for (std::size_t k = 0; k < 8; ++k) v[k] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + k * stride));
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    t[2 * k] = _mm256_unpacklo_epi16(v[2 * k], v[2 * k + 1]);
    t[2 * k + 1] = _mm256_unpackhi_epi16(v[2 * k], v[2 * k + 1]);
  }
#pragma GCC unroll 2
  for (int k = 0; k < 2; ++k) {
    u[4 * k] = _mm256_unpacklo_epi32(t[4 * k], t[4 * k + 2]);
    u[4 * k + 1] = _mm256_unpackhi_epi32(t[4 * k], t[4 * k + 2]);
    u[4 * k + 2] = _mm256_unpacklo_epi32(t[4 * k + 1], t[4 * k + 3]);
    u[4 * k + 3] = _mm256_unpackhi_epi32(t[4 * k + 1], t[4 * k + 3]);
  }
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    v[2 * k] = _mm256_unpacklo_epi64(u[k], u[k + 4]);
    v[2 * k + 1] = _mm256_unpackhi_epi64(u[k], u[k + 4]);
  }
}

// Counts of `Positions` positions to sums, then the epilogue.
template <int Positions>
inline void finish_some(const FinishPlanes& row, int first, int x, const __m128i* counts) {
  const __m256 worth = _mm256_set1_ps(row.worth);
  __m256 y[Positions];
#pragma GCC unroll 4
  for (int p = 0; p < Positions; ++p) y[p] = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(counts[p]));
  if (row.border[x] == row.border[x + Positions - 1]) {  // and so all between
    const __m256 base = _mm256_loadu_ps(row.base + row.border[x] * PANEL + first);
#pragma GCC unroll 4
    for (int p = 0; p < Positions; ++p) y[p] = _mm256_fnmadd_ps(worth, y[p], base);
  } else {
#pragma GCC unroll 4
    for (int p = 0; p < Positions; ++p) {
      y[p] = _mm256_fnmadd_ps(worth, y[p], _mm256_loadu_ps(row.base + row.border[x + p] * PANEL + first));
    }
  }
  ftbnn::finish(row.end, row.channels, first, static_cast<std::size_t>(x), y);
}

void finish(const FinishPlanes& row) {
  for (int x = 0; x < row.width; x += 16) {
    const int width = row.width - x < 16 ? row.width - x : 16;
    for (int first = 0; first < row.channels; first += LANES) {
      __m256i columns[8];
      transpose(row.sums + static_cast<std::size_t>(first) * row.sums_stride + x, row.sums_stride, columns);
      alignas(32) __m128i counts[16];
#pragma GCC unroll 8
      for (int p = 0; p < 8; ++p) {
        counts[p] = _mm256_castsi256_si128(columns[p]);
        counts[8 + p] = _mm256_extracti128_si256(columns[p], 1);
      }
      int p = 0;
      for (; p + 4 <= width; p += 4) finish_some<4>(row, first, x + p, counts + p);
      if (width & 2) finish_some<2>(row, first, x + p, counts + p);
      if (width & 1) finish_some<1>(row, first, x + width - 1, counts + width - 1);
    }
  }
}

}  // namespace

extern const PlaneKernels planes__avx2;
const PlaneKernels planes__avx2 = {INT_MAX, CHUNK, BLOCK, pack<ROWS>, spread, count, finish};

}  // namespace ftbnn
