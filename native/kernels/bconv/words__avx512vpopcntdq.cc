// A lane is an output channel, a tile some positions of the row, so sums never cross lanes and the epilogue starts
// from registers.
#include "kernels/bconv/words.h"

#include <type_traits>

#include "kernels/epilogue/epilogue__avx512.h"

namespace ftbnn {

namespace {

// Rows are 7, 14, 28, 56 or 112 wide in most networks, so the largest tiles leave no tail there.
constexpr int BIT_TILE = 7;  // x 2 vectors of 8 words: half a panel

typedef long long Unaligned __attribute__((aligned(1), may_alias));

// Half a panel at a time leaves registers to spare, so that loads run ahead; of that one vector or both.
// Step, where not 0, is that of the row as a constant.
template <bool ZeroOne, int Step, int Positions, int Vectors>
void bconv_half(const BConvRow& row, int x, int half) {
  const std::size_t step = Step != 0 ? Step : row.step;
  __m512i pop[Positions][Vectors];
#pragma GCC unroll 16
  for (int p = 0; p < Positions; ++p) {
    for (int v = 0; v < Vectors; ++v) pop[p][v] = _mm512_setzero_si512();
  }
  const std::uint64_t* w = row.weights + half * LANES;
  const __m512i mask = _mm512_set1_epi64(static_cast<long long>(row.mask));
  const bool is_whole = row.mask == ~std::uint64_t{0} || ZeroOne;  // weights are 0 behind the window
  for (int ky = 0; ky < row.kh; ++ky) {
    const std::uint8_t* in = row.in + ky * row.row_stride + x * step;
    const auto count = [&](auto is_masked) {
      // Or GCC carries words from turn to turn in general registers, from where a broadcast is one more operation.
      __asm__("" : "+r"(in));
      __m512i weights[Vectors];
      for (int v = 0; v < Vectors; ++v) weights[v] = _mm512_load_si512(w + 8 * v);
#pragma GCC unroll 16
      for (int p = 0; p < Positions; ++p) {
        const __m512i word = _mm512_set1_epi64(*reinterpret_cast<const Unaligned*>(in + p * step));
        for (int v = 0; v < Vectors; ++v) {
          __m512i hits;
          if (ZeroOne) {
            hits = _mm512_and_si512(word, weights[v]);
          } else if (is_masked) {
            hits = _mm512_ternarylogic_epi64(word, weights[v], mask, 0x28);  // (a ^ b) & c
          } else {
            hits = _mm512_xor_si512(word, weights[v]);
          }
          pop[p][v] = _mm512_add_epi64(pop[p][v], _mm512_popcnt_epi64(hits));
        }
      }
      in += sizeof(std::uint64_t);
      w += PANEL;
    };
    const int whole = is_whole ? row.run : row.run - 1;
    for (int k = 0; k < whole; ++k) count(std::false_type{});
    if (!is_whole) count(std::true_type{});
  }
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  __m512 acc[Positions];
#pragma GCC unroll 16
  for (int p = 0; p < Positions; ++p) {
    const __m512i count = _mm512_permutex2var_epi32(pop[p][0], even, pop[p][Vectors - 1]);
    const __m512i twice = _mm512_add_epi32(count, count);
    __m512i sum;
    if (ZeroOne) {
      sum = _mm512_sub_epi32(twice, _mm512_set1_epi32(row.ones[x + p]));
    } else {
      sum = _mm512_sub_epi32(_mm512_loadu_si512(row.base + row.border[x + p] * PANEL + half * LANES), twice);
    }
    acc[p] =
        _mm512_maskz_cvtepi32_ps(0xffff, sum);  // unmasked, GCC 12 warns of an uninitialised value in its own header
  }
  finish(row.end, row.channels, half * LANES, x, acc);
}

template <bool ZeroOne, int Step, int Positions>
void bconv_tile(const BConvRow& row, int x) {
  for (int half = 0, left = row.channels; left > 0; ++half, left -= LANES) {
    left > 8 ? bconv_half<ZeroOne, Step, Positions, 2>(row, x, half)
             : bconv_half<ZeroOne, Step, Positions, 1>(row, x, half);
  }
}

// Cuts the row into as few tiles as it takes, of nearly equal sizes; tiles[n - 1] does n positions.
void cut(const BConvRow& row, void (*const (&tiles)[BIT_TILE])(const BConvRow&, int)) {
  const int count = (row.width + BIT_TILE - 1) / BIT_TILE;
  for (int tile = 0, x = 0; tile < count; ++tile) {
    const int positions = (row.width - x) / (count - tile);
    tiles[positions - 1](row, x);
    x += positions;
  }
}

// Only full tiles are worth a constant step: it saves address arithmetic, 4 % of a layer with 64 channels.
template <bool ZeroOne, int Step>
void bconv_row(const BConvRow& row) {
  static constexpr void (*tiles[BIT_TILE])(const BConvRow&, int) = {
      bconv_tile<ZeroOne, 0, 1>, bconv_tile<ZeroOne, 0, 2>, bconv_tile<ZeroOne, 0, 3>,    bconv_tile<ZeroOne, 0, 4>,
      bconv_tile<ZeroOne, 0, 5>, bconv_tile<ZeroOne, 0, 6>, bconv_tile<ZeroOne, Step, 7>,
  };
  cut(row, tiles);
}

template <bool ZeroOne>
void bconv_row(const BConvRow& row) {
  switch (row.step) {
    case 8:
      return bconv_row<ZeroOne, 8>(row);
    case 16:
      return bconv_row<ZeroOne, 16>(row);
    case 32:
      return bconv_row<ZeroOne, 32>(row);
    case 64:
      return bconv_row<ZeroOne, 64>(row);
    default:
      return bconv_row<ZeroOne, 0>(row);
  }
}

void row(const BConvRow& row) { row.zero_one ? bconv_row<true>(row) : bconv_row<false>(row); }

void ones(const std::uint64_t* codes, std::size_t words, int positions, std::int32_t* ones) {
  for (int x = 0; x < positions; ++x) {
    long long sum = 0;
    for (std::size_t k = 0; k < words; ++k) sum += __builtin_popcountll(*codes++);
    ones[x] = static_cast<std::int32_t>(sum);
  }
}

}  // namespace

extern const WordKernels words__avx512;
const WordKernels words__avx512 = {row, ones};

}  // namespace ftbnn
