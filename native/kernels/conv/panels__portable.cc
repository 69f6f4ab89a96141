// For any CPU: plain loops over channels that the compiler turns into the vectors of its baseline (SSE2, NEON).
// Where there is no fused multiply-add, std::fma is a slow call, so it is a * b + c here.
#include "kernels/conv/panels.h"
#include "kernels/epilogue/epilogue__portable.h"

namespace ftbnn {

namespace {

constexpr int FLOAT_TILE = 4;  // positions that share a pass over the weights

// Four products at a time, added in order, so that the sums travel to memory and back only once for them.
template <int Positions>
void conv_tile(const ConvRow& row, int x) {
  const std::size_t step = static_cast<std::size_t>(row.stride) * row.channels_in;
  const std::size_t run = static_cast<std::size_t>(row.kw) * row.channels_in;
  float acc[Positions][PANEL] = {};
  const float* w = row.weights;
  for (int ky = 0; ky < row.kh; ++ky) {
    const float* in = row.in + ky * row.row_stride + x * step;
    std::size_t k = 0;
    for (; k + 4 <= run; k += 4, w += 4 * PANEL) {
      const float *w1 = w + PANEL, *w2 = w1 + PANEL, *w3 = w2 + PANEL;
      for (int p = 0; p < Positions; ++p) {
        const float* at = in + p * step + k;
        const float a0 = at[0], a1 = at[1], a2 = at[2], a3 = at[3];
        for (int o = 0; o < PANEL; ++o) acc[p][o] = acc[p][o] + a0 * w[o] + a1 * w1[o] + a2 * w2[o] + a3 * w3[o];
      }
    }
    for (; k < run; ++k, w += PANEL) {
      for (int p = 0; p < Positions; ++p) {
        const float value = in[p * step + k];
        for (int o = 0; o < PANEL; ++o) acc[p][o] += value * w[o];
      }
    }
  }
  for (int p = 0; p < Positions; ++p) finish(row.end, x + p, row.channels, acc[p]);
}

void row(const ConvRow& row) {
  int x = 0;
  for (; x + FLOAT_TILE <= row.width; x += FLOAT_TILE) conv_tile<FLOAT_TILE>(row, x);
  for (; x < row.width; ++x) conv_tile<1>(row, x);
}

}  // namespace

extern const PanelKernels panels__portable;
const PanelKernels panels__portable = {row};

}  // namespace ftbnn
