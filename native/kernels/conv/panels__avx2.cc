// A lane is an output channel, a tile some positions of the row, as with AVX-512.
#include "kernels/conv/panels.h"
#include "kernels/epilogue/epilogue__avx2.h"

namespace ftbnn {

namespace {

constexpr int FLOAT_TILE = 6;  // x 2 vectors: 12 accumulators, 2 weights, 1 input of 16 registers

// For one ky a window lies side by side in the image, and its weights in the panel: a run of kw * channels_in products.
template <int Positions>
void conv_tile(const ConvRow& row, int x) {
  const std::size_t step = static_cast<std::size_t>(row.stride) * row.channels_in;
  const std::size_t run = static_cast<std::size_t>(row.kw) * row.channels_in;
  for (int first = 0; first < row.channels; first += 2 * LANES) {
    __m256 acc[2][Positions];
#pragma GCC unroll 8
    for (int p = 0; p < Positions; ++p) acc[0][p] = acc[1][p] = _mm256_setzero_ps();
    const float* w = row.weights + first;
    for (int ky = 0; ky < row.kh; ++ky) {
      const float* in = row.in + ky * row.row_stride + x * step;
      for (std::size_t k = 0; k < run; ++k, w += PANEL) {
        const __m256 w0 = _mm256_load_ps(w), w1 = _mm256_load_ps(w + LANES);
#pragma GCC unroll 8
        for (int p = 0; p < Positions; ++p) {
          const __m256 value = _mm256_broadcast_ss(in + p * step + k);
          acc[0][p] = _mm256_fmadd_ps(value, w0, acc[0][p]);
          acc[1][p] = _mm256_fmadd_ps(value, w1, acc[1][p]);
        }
      }
    }
    finish(row.end, row.channels, first, x, acc[0]);
    if (first + LANES < row.channels) finish(row.end, row.channels, first + LANES, x, acc[1]);
  }
}

// As few tiles as it takes, of nearly equal sizes; tiles[n - 1] does n positions.
void row(const ConvRow& row) {
  static constexpr void (*tiles[FLOAT_TILE])(const ConvRow&, int) = {
      conv_tile<1>, conv_tile<2>, conv_tile<3>, conv_tile<4>, conv_tile<5>, conv_tile<6>,
  };
  const int count = (row.width + FLOAT_TILE - 1) / FLOAT_TILE;
  for (int tile = 0, x = 0; tile < count; ++tile) {
    const int positions = (row.width - x) / (count - tile);
    tiles[positions - 1](row, x);
    x += positions;
  }
}

}  // namespace

extern const PanelKernels panels__avx2;
const PanelKernels panels__avx2 = {row};

}  // namespace ftbnn
