// A lane is an output channel, a tile some positions of the row, so sums never cross lanes and the epilogue starts
// from registers.
#include <immintrin.h>

#include "kernels/conv_row.h"

namespace ftbnn {

namespace {

constexpr int LANES = 16;  // floats of a vector; a panel is two halves of so many channels

// Rows are 7, 14, 28, 56 or 112 wide in most networks, so the largest tiles leave no tail there.
constexpr int FLOAT_TILE = 14;  // x 2 vectors: 28 accumulators, 2 weights, 1 input of 32 registers
constexpr int BIT_TILE = 7;     // x 2 vectors of 8 words: half a panel

// Sums of one half of the panel come in. Each step takes all positions, so one branch serves them all and they stay in
// registers (which they do only if GCC is told to unroll).
template <int Positions>
inline void finish(const Epilogue& end, int channels, int half, std::size_t x, __m512 (&y)[Positions]) {
  const int first = half * LANES;
  const __mmask16 lanes = channels - first >= LANES ? 0xffff : static_cast<__mmask16>((1U << (channels - first)) - 1);
  const __m512 zero = _mm512_setzero_ps();
  const __m512 scale = _mm512_loadu_ps(end.scale + first), shift = _mm512_loadu_ps(end.shift + first);
#pragma GCC unroll 16
  for (int p = 0; p < Positions; ++p) y[p] = _mm512_fmadd_ps(scale, y[p], shift);
  if (end.shortcut != nullptr) {
    const std::size_t stride = end.shortcut_stride;
    const float* shortcut = end.shortcut + x * stride + first;
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) {
      y[p] = _mm512_add_ps(y[p], _mm512_maskz_loadu_ps(lanes, shortcut + p * stride));
    }
  }
  if (end.act == Act::relu) {
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) {
      y[p] = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y[p], zero, _CMP_GT_OQ), y[p]);
    }
  } else if (end.act == Act::prelu) {
    const __m512 left = _mm512_loadu_ps(end.left + first);
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) {
      y[p] = _mm512_mask_mul_ps(y[p], _mm512_cmp_ps_mask(y[p], zero, _CMP_NGT_UQ), y[p], left);
    }
  } else if (end.act == Act::fprelu) {
    const __m512 left = _mm512_loadu_ps(end.left + first), right = _mm512_loadu_ps(end.right + first);
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) {
      const __mmask16 positive = _mm512_cmp_ps_mask(y[p], zero, _CMP_GT_OQ);
      y[p] = _mm512_mul_ps(y[p], _mm512_mask_blend_ps(positive, left, right));
    }
  }
  if (end.out != nullptr) {
    const std::size_t stride = end.out_stride;
    float* out = end.out + x * stride + first;
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) _mm512_mask_storeu_ps(out + p * stride, lanes, y[p]);
  }
  if (end.codes != nullptr) {
    const std::size_t stride = end.codes_stride;
    std::uint32_t* codes = end.codes + x * stride;
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) {
      const std::uint32_t signs = _mm512_mask_cmp_ps_mask(lanes, y[p], zero, _CMP_GT_OQ);
      codes[p * stride] = half == 0 ? signs : codes[p * stride] | signs << LANES;
    }
  }
}

// For one ky a window lies side by side in the image, and its weights in the panel: a run of kw * channels_in products.
template <int Positions, int Halves>
void conv_tile(const ConvRow& row, int x) {
  const std::size_t step = static_cast<std::size_t>(row.stride) * row.channels_in;
  const std::size_t run = static_cast<std::size_t>(row.kw) * row.channels_in;
  __m512 acc[Halves][Positions];
  for (int h = 0; h < Halves; ++h) {
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) acc[h][p] = _mm512_setzero_ps();
  }
  const float* w = row.weights;
  for (int ky = 0; ky < row.kh; ++ky) {
    const float* in = row.in + ky * row.row_stride + x * step;
    for (std::size_t k = 0; k < run; ++k, w += PANEL) {
      __m512 weights[Halves];
      for (int h = 0; h < Halves; ++h) weights[h] = _mm512_load_ps(w + h * LANES);
#pragma GCC unroll 16
      for (int p = 0; p < Positions; ++p) {
        const __m512 value = _mm512_set1_ps(in[p * step + k]);
        for (int h = 0; h < Halves; ++h) acc[h][p] = _mm512_fmadd_ps(value, weights[h], acc[h][p]);
      }
    }
  }
  finish(row.end, row.channels, 0, x, acc[0]);
  if constexpr (Halves == 2) finish(row.end, row.channels, 1, x, acc[1]);
}

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
  finish(row.end, row.channels, half, x, acc);
}

template <bool ZeroOne, int Step, int Positions>
void bconv_tile(const BConvRow& row, int x) {
  bconv_half<ZeroOne, Step, Positions>(row, x, 0);
  if (row.channels > LANES) bconv_half<ZeroOne, Step, Positions>(row, x, 1);
}

// Cuts the row into as few tiles as it takes, of nearly equal sizes; tiles[n - 1] does n positions.
template <typename Row, int Largest>
void cut(const Row& row, void (*const (&tiles)[Largest])(const Row&, int)) {
  const int count = (row.width + Largest - 1) / Largest;
  for (int tile = 0, x = 0; tile < count; ++tile) {
    const int positions = (row.width - x) / (count - tile);
    tiles[positions - 1](row, x);
    x += positions;
  }
}

template <int Halves>
void conv_row(const ConvRow& row) {
  static constexpr void (*tiles[FLOAT_TILE])(const ConvRow&, int) = {
      conv_tile<1, Halves>,  conv_tile<2, Halves>,  conv_tile<3, Halves>,  conv_tile<4, Halves>,  conv_tile<5, Halves>,
      conv_tile<6, Halves>,  conv_tile<7, Halves>,  conv_tile<8, Halves>,  conv_tile<9, Halves>,  conv_tile<10, Halves>,
      conv_tile<11, Halves>, conv_tile<12, Halves>, conv_tile<13, Halves>, conv_tile<14, Halves>,
  };
  cut(row, tiles);
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

}  // namespace

void conv_row__avx512(const ConvRow& row) { row.channels > LANES ? conv_row<2>(row) : conv_row<1>(row); }

void bconv_row__avx512(const BConvRow& row) { row.zero_one ? bconv_row<true>(row) : bconv_row<false>(row); }

}  // namespace ftbnn
