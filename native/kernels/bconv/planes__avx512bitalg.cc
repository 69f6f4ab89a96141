// Eight channels of 64 positions a vector: xor (or and), vpopcntb, vpaddb for 512 products, whatever the channels.
#include "kernels/bconv/planes__avx512.h"

namespace ftbnn {

namespace {

constexpr int CHUNK = 8, ROWS = 12;  // 12 x 2 vectors of sums, 2 of codes, a weight of 32 registers
constexpr int SEGMENT = 31;          // steps whose counts, 8 at most, fit into bytes

// Weights are words of four equal bytes, which an operand may spread over a vector: [rows that go together][step][row].
std::size_t pack(const std::uint8_t* chunks, int channels, int steps, std::uint8_t* to) {
  const int parts = (channels + ROWS - 1) / ROWS;
  auto* words = reinterpret_cast<std::uint32_t*>(to);
  for (int part = 0, first = 0; part < parts && to != nullptr; ++part) {
    const int rows = (channels - first) / (parts - part);
    for (int step = 0; step < steps; ++step) {
      for (int r = 0; r < rows; ++r) *words++ = 0x01010101U * chunks[(first + r) * steps + step];
    }
    first += rows;
  }
  return static_cast<std::size_t>(channels) * static_cast<std::size_t>(steps) * sizeof(std::uint32_t);
}

template <bool ZeroOne, int Rows, int Vectors>
__attribute__((noinline)) void count_rows(const CountBlock& block, const std::uint32_t* weights, std::int16_t* sums) {
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
        const __m512i weight = _mm512_set1_epi32(static_cast<int>(weights[r]));
        for (int v = 0; v < Vectors; ++v) {
          const __m512i hits = ZeroOne ? _mm512_and_si512(a[v], weight) : _mm512_xor_si512(a[v], weight);
          acc[r][v] = _mm512_add_epi8(acc[r][v], _mm512_popcnt_epi8(hits));
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

template <bool ZeroOne, int Vectors>
void count_block(const CountBlock& block) {
  static constexpr decltype(&count_rows<false, 1, 1>) kernels[ROWS] = {
      count_rows<ZeroOne, 1, Vectors>,  count_rows<ZeroOne, 2, Vectors>,  count_rows<ZeroOne, 3, Vectors>,
      count_rows<ZeroOne, 4, Vectors>,  count_rows<ZeroOne, 5, Vectors>,  count_rows<ZeroOne, 6, Vectors>,
      count_rows<ZeroOne, 7, Vectors>,  count_rows<ZeroOne, 8, Vectors>,  count_rows<ZeroOne, 9, Vectors>,
      count_rows<ZeroOne, 10, Vectors>, count_rows<ZeroOne, 11, Vectors>, count_rows<ZeroOne, 12, Vectors>};
  const auto* weights = reinterpret_cast<const std::uint32_t*>(block.weights);
  const int parts = (block.channels + ROWS - 1) / ROWS;
  for (int part = 0, first = 0; part < parts; ++part) {
    const int rows = (block.channels - first) / (parts - part);
    kernels[rows - 1](block, weights, block.sums + first * BLOCK);
    weights += static_cast<std::size_t>(rows) * static_cast<std::size_t>(block.steps);
    first += rows;
  }
}

void count(const CountBlock& block) {
  if (block.positions > BLOCK / 2) {
    block.ones != nullptr ? count_block<true, 2>(block) : count_block<false, 2>(block);
  } else {
    block.ones != nullptr ? count_block<true, 1>(block) : count_block<false, 1>(block);
  }
  if (block.ones != nullptr) settle(block);
}

// Eight words become eight times eight bytes of one chunk.
void spread(const SpreadRow& row) {
  for (int word = 0; word * 8 < row.chunks; ++word) {
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
      for (int k = 0; k < 8 && 8 * word + k < row.chunks; ++k) {
        auto* to = row.to + static_cast<std::size_t>(8 * word + k) * row.plane_bytes + static_cast<std::size_t>(x);
        const __m128i two = bytes[k / 2];
        k % 2 == 1 ? _mm_storeh_pd(reinterpret_cast<double*>(to), _mm_castsi128_pd(two))
                   : _mm_storel_epi64(reinterpret_cast<__m128i*>(to), two);
      }
    }
    for (; x < row.width; ++x) {
      const std::uint64_t bits = from[static_cast<std::size_t>(x) * row.step];
      for (int k = 0; k < 8 && 8 * word + k < row.chunks; ++k) {
        row.to[static_cast<std::size_t>(8 * word + k) * row.plane_bytes + static_cast<std::size_t>(x)] =
            static_cast<std::uint8_t>(bits >> 8 * k);
      }
    }
  }
}

}  // namespace

extern const PlaneKernels planes__bitalg;
const PlaneKernels planes__bitalg = {48, CHUNK, BLOCK, pack, spread, count, finish};

}  // namespace ftbnn
