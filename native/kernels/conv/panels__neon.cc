// A lane is an output channel, a tile some positions of the row, as with AVX-512. Four numbers of a window are loaded
// together and multiplied one by one (FMLA by element), so that nothing is broadcast.
#include "kernels/conv/panels.h"
#include "kernels/epilogue/epilogue__neon.h"

namespace ftbnn {

namespace {

constexpr int FLOAT_TILE = 5;  // x 4 vectors: 20 sums, 4 weights, 5 inputs of 32 registers

template <int Positions>
using Sums = float32x4_t[Positions][PARTS];

// Number `Which` of each position's four.
template <int Which, int Positions>
__attribute__((always_inline)) inline void multiply_add(const float32x4_t (&in)[Positions], const float* weights,
                                                        Sums<Positions>& sums) {
  const Floats w = load_floats(weights);
  repeat<Positions>([&](auto p) {
    repeat<PARTS>([&](auto k) { sums[p][k] = vfmaq_laneq_f32(sums[p][k], w.part[k], in[p], Which); });
  });
}

// For one ky a window lies side by side in the image, and its weights in the panel: a run of kw * channels_in products.
template <int Positions>
void conv_tile(const ConvRow& row, int x) {
  const std::size_t step = static_cast<std::size_t>(row.stride) * row.channels_in;
  const std::size_t run = static_cast<std::size_t>(row.kw) * row.channels_in;
  for (int first = 0; first < row.channels; first += LANES) {
    Sums<Positions> sums;
    repeat<Positions>([&](auto p) { repeat<PARTS>([&](auto k) { sums[p][k] = vdupq_n_f32(0); }); });
    const float* w = row.weights + first;
    for (int ky = 0; ky < row.kh; ++ky) {
      const float* in = row.in + ky * row.row_stride + x * step;
      float32x4_t values[Positions];
      std::size_t k = 0;
      for (; k + 4 <= run; k += 4, w += 4 * PANEL) {
        repeat<Positions>([&](auto p) { values[p] = vld1q_f32(in + p * step + k); });
        multiply_add<0>(values, w, sums);
        multiply_add<1>(values, w + PANEL, sums);
        multiply_add<2>(values, w + 2 * PANEL, sums);
        multiply_add<3>(values, w + 3 * PANEL, sums);
      }
      for (; k < run; ++k, w += PANEL) {
        repeat<Positions>([&](auto p) { values[p] = vld1q_dup_f32(in + p * step + k); });
        multiply_add<0>(values, w, sums);
      }
    }
    Floats y[Positions];
    repeat<Positions>([&](auto p) { y[p] = {{sums[p][0], sums[p][1], sums[p][2], sums[p][3]}}; });
    finish(row.end, row.channels, first, x, y);
  }
}

// As few tiles as it takes, of nearly equal sizes; tiles[n - 1] does n positions.
void row(const ConvRow& row) {
  static constexpr void (*tiles[FLOAT_TILE])(const ConvRow&, int) = {conv_tile<1>, conv_tile<2>, conv_tile<3>,
                                                                     conv_tile<4>, conv_tile<5>};
  const int count = (row.width + FLOAT_TILE - 1) / FLOAT_TILE;
  for (int tile = 0, x = 0; tile < count; ++tile) {
    const int positions = (row.width - x) / (count - tile);
    tiles[positions - 1](row, x);
    x += positions;
  }
}

}  // namespace

extern const PanelKernels panels__neon;
const PanelKernels panels__neon = {row};

}  // namespace ftbnn
