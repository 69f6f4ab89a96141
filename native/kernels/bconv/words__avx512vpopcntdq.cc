// A lane is an output channel, a tile some positions of the row, so sums never cross lanes and the epilogue starts
// from registers.
#include "kernels/bconv/words.h"
#include "kernels/epilogue/epilogue__avx512.h"

namespace ftbnn {

namespace {

// Rows are 7, 14, 28, 56 or 112 wide in most networks, so the largest tiles leave no tail there.
constexpr int BIT_TILE = 7;  // x 2 vectors of 8 words: half a panel

// Half a panel at a time leaves registers to spare, so that loads run ahead.
// Step, where not 0, is stride * words as a constant.
template <bool ZeroOne, int Step, int Positions>
void bconv_half(const BConvRow& row, int x, int half) {
  const std::size_t step = Step != 0 ? Step : static_cast<std::size_t>(row.stride) * row.words;
  const std::size_t run = static_cast<std::size_t>(row.kw) * row.words;
  __m512i pop[Positions][2];
#pragma GCC unroll 16
  for (int p = 0; p < Positions; ++p) pop[p][0] = pop[p][1] = _mm512_setzero_si512();
  const std::uint64_t* w = row.weights + half * LANES;
  for (int ky = 0; ky < row.kh; ++ky) {
    const std::uint64_t* in = row.in + ky * row.row_stride + x * step;
    for (std::size_t k = 0; k < run; ++k, ++in, w += PANEL) {
      // Or GCC carries words from turn to turn in general registers, from where a broadcast is one more operation.
      __asm__("" : "+r"(in));
      const __m512i weights[2] = {_mm512_load_si512(w), _mm512_load_si512(w + 8)};
#pragma GCC unroll 16
      for (int p = 0; p < Positions; ++p) {
        const __m512i word = _mm512_set1_epi64(static_cast<long long>(in[p * step]));
        for (int v = 0; v < 2; ++v) {
          const __m512i hits = ZeroOne ? _mm512_and_si512(word, weights[v]) : _mm512_xor_si512(word, weights[v]);
          pop[p][v] = _mm512_add_epi64(pop[p][v], _mm512_popcnt_epi64(hits));
        }
      }
    }
  }
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  __m512 acc[Positions];
#pragma GCC unroll 16
  for (int p = 0; p < Positions; ++p) {
    const __m512i count = _mm512_permutex2var_epi32(pop[p][0], even, pop[p][1]);
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
  bconv_half<ZeroOne, Step, Positions>(row, x, 0);
  if (row.channels > LANES) bconv_half<ZeroOne, Step, Positions>(row, x, 1);
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
  switch (row.stride * row.words) {
    case 1:
      return bconv_row<ZeroOne, 1>(row);
    case 2:
      return bconv_row<ZeroOne, 2>(row);
    case 3:
      return bconv_row<ZeroOne, 3>(row);
    case 4:
      return bconv_row<ZeroOne, 4>(row);
    case 5:
      return bconv_row<ZeroOne, 5>(row);
    case 8:
      return bconv_row<ZeroOne, 8>(row);
    default:
      return bconv_row<ZeroOne, 0>(row);
  }
}

void row(const BConvRow& row) { row.zero_one ? bconv_row<true>(row) : bconv_row<false>(row); }

void ones(const OnesRow& row) {
  const int columns = (row.width - 1) * row.stride + row.kw;
  if (row.words == 1) {
    for (int x = 0; x < columns; x += 8) {
      const __mmask8 lanes = columns - x >= 8 ? 0xff : static_cast<__mmask8>((1U << (columns - x)) - 1);
      __m512i sum = _mm512_setzero_si512();
      for (int ky = 0; ky < row.kh; ++ky) {
        const __m512i words = _mm512_maskz_loadu_epi64(lanes, row.in + ky * row.row_stride + x);
        sum = _mm512_add_epi64(sum, _mm512_popcnt_epi64(words));
      }
      _mm256_mask_storeu_epi32(row.columns + x, lanes, _mm512_maskz_cvtepi64_epi32(0xff, sum));
    }
  } else {
    for (int x = 0; x < columns; ++x) {
      long long sum = 0;
      for (int ky = 0; ky < row.kh; ++ky) {
        const std::uint64_t* in = row.in + ky * row.row_stride + static_cast<std::size_t>(x) * row.words;
        for (int k = 0; k < row.words; ++k) sum += __builtin_popcountll(in[k]);
      }
      row.columns[x] = static_cast<std::int32_t>(sum);
    }
  }
  for (int x = 0; x < row.width; ++x) {
    std::int32_t sum = 0;
    for (int kx = 0; kx < row.kw; ++kx) sum += row.columns[x * row.stride + kx];
    row.ones[x] = sum;
  }
}

}  // namespace

extern const WordKernels words__avx512;
const WordKernels words__avx512 = {row, ones};

}  // namespace ftbnn
