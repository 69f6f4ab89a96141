// Tables by nibble, 64 positions a vector: vpshufb and vpaddb for 256 products. For CPUs that count no bits in vectors.
#include <climits>

#include "kernels/bconv/planes__avx512.h"
#include "kernels/bconv/planes__nibbles.h"

namespace ftbnn {

namespace {

constexpr int ROWS = 12;  // 12 x 2 vectors of sums, 2 of codes, a table of 32 registers

template <int Rows, int Vectors>
__attribute__((noinline)) void count_rows(const CountBlock& block, const std::uint8_t* weights, std::int16_t* sums) {
  const std::uint8_t* table = tables.of[block.ones != nullptr ? 1 : 0][0];
  for (int start = 0; start < block.steps; start += SEGMENT) {
    const int end = start + SEGMENT < block.steps ? start + SEGMENT : block.steps;
    __m512i acc[Rows][Vectors];
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      for (int v = 0; v < Vectors; ++v) acc[r][v] = _mm512_setzero_si512();
    }
    for (int k = start; k < end; ++k, weights += Rows) {
      const std::uint8_t* in = block.codes + block.offsets[k];
      __m512i a[Vectors];
      for (int v = 0; v < Vectors; ++v) a[v] = _mm512_loadu_si512(in + 64 * v);
#pragma GCC unroll 12
      for (int r = 0; r < Rows; ++r) {
        const __m512i counts =
            _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(table + weights[r])));
        for (int v = 0; v < Vectors; ++v) {
          acc[r][v] = _mm512_add_epi8(acc[r][v], _mm512_shuffle_epi8(counts, a[v]));
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

template <int Vectors>
void count_block(const CountBlock& block) {
  static constexpr decltype(&count_rows<1, 1>) kernels[ROWS] = {
      count_rows<1, Vectors>, count_rows<2, Vectors>,  count_rows<3, Vectors>,  count_rows<4, Vectors>,
      count_rows<5, Vectors>, count_rows<6, Vectors>,  count_rows<7, Vectors>,  count_rows<8, Vectors>,
      count_rows<9, Vectors>, count_rows<10, Vectors>, count_rows<11, Vectors>, count_rows<12, Vectors>};
  const std::uint8_t* weights = block.weights;
  const int parts = (block.channels + ROWS - 1) / ROWS;
  for (int part = 0, first = 0; part < parts; ++part) {
    const int rows = (block.channels - first) / (parts - part);
    kernels[rows - 1](block, weights, block.sums + first * BLOCK);
    weights += static_cast<std::size_t>(rows) * static_cast<std::size_t>(block.steps);
    first += rows;
  }
}

void count(const CountBlock& block) {
  block.positions > BLOCK / 2 ? count_block<2>(block) : count_block<1>(block);
  if (block.ones != nullptr) settle(block);
}

}  // namespace

extern const PlaneKernels planes__avx512;
const PlaneKernels planes__avx512 = {INT_MAX, CHUNK, BLOCK, pack<ROWS>, spread, count, finish};

}  // namespace ftbnn
