// A lane is an output channel, a tile some positions of the row, as with AVX2; nothing is fused, so it gives portable's
// bits.
#include "kernels/conv/panels.h"
#include "kernels/epilogue/epilogue__simd128.h"

namespace ftbnn {

namespace {

constexpr int FLOAT_TILE = 2;  // x 4 vectors: 8 accumulators, 2 inputs, 1 weight of 16 registers, and some to spare

// For one ky a window lies side by side in the image, and its weights in the panel: a run of kw * channels_in products.
template <int Positions>
void conv_tile(const ConvRow& row, int x) {
  const std::size_t step = static_cast<std::size_t>(row.stride) * row.channels_in;
  const std::size_t run = static_cast<std::size_t>(row.kw) * row.channels_in;
  for (int first = 0; first < row.channels; first += HALF * LANES) {
    v128_t acc[HALF][Positions];
#pragma unroll
    for (int v = 0; v < HALF; ++v) {
#pragma unroll
      for (int p = 0; p < Positions; ++p) acc[v][p] = wasm_f32x4_const_splat(0);
    }
    const float* w = row.weights + first;
    for (int ky = 0; ky < row.kh; ++ky) {
      const float* in = row.in + ky * row.row_stride + x * step;
      for (std::size_t k = 0; k < run; ++k, w += PANEL) {
        v128_t value[Positions];
#pragma unroll
        for (int p = 0; p < Positions; ++p) value[p] = wasm_v128_load32_splat(in + p * step + k);
#pragma unroll
        for (int v = 0; v < HALF; ++v) {
          const v128_t weights = wasm_v128_load(w + v * LANES);
#pragma unroll
          for (int p = 0; p < Positions; ++p) {
            acc[v][p] = wasm_f32x4_add(acc[v][p], wasm_f32x4_mul(value[p], weights));
          }
        }
      }
    }
    finish(row.end, row.channels, first, static_cast<std::size_t>(x), acc);
  }
}

// As few tiles as it takes, of nearly equal sizes; tiles[n - 1] does n positions.
void row(const ConvRow& row) {
  static constexpr void (*tiles[FLOAT_TILE])(const ConvRow&, int) = {conv_tile<1>, conv_tile<2>};
  const int count = (row.width + FLOAT_TILE - 1) / FLOAT_TILE;
  for (int tile = 0, x = 0; tile < count; ++tile) {
    const int positions = (row.width - x) / (count - tile);
    tiles[positions - 1](row, x);
    x += positions;
  }
}

}  // namespace

extern const PanelKernels panels__simd128;
const PanelKernels panels__simd128 = {row};

}  // namespace ftbnn
