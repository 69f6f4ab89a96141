// A lane is an output channel, a tile some positions of the row, so sums never cross lanes and the epilogue starts
// from registers.
#include "kernels/conv/panels.h"
#include "kernels/epilogue/epilogue__avx512.h"

namespace ftbnn {

namespace {

// Rows are 7, 14, 28, 56 or 112 wide in most networks, so the largest tiles leave no tail there.
constexpr int FLOAT_TILE = 14;  // x 2 vectors: 28 accumulators, 2 weights, 1 input of 32 registers

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
  if constexpr (Halves == 2) finish(row.end, row.channels, LANES, x, acc[1]);
}

// Cuts the row into as few tiles as it takes, of nearly equal sizes; tiles[n - 1] does n positions.
void cut(const ConvRow& row, void (*const (&tiles)[FLOAT_TILE])(const ConvRow&, int)) {
  const int count = (row.width + FLOAT_TILE - 1) / FLOAT_TILE;
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

void row(const ConvRow& row) { row.channels > LANES ? conv_row<2>(row) : conv_row<1>(row); }

}  // namespace

extern const PanelKernels panels__avx512;
const PanelKernels panels__avx512 = {row};

}  // namespace ftbnn
