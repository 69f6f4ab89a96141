// The products of a real convolution in training: the contract of their kernels.
//
// Maps have their channels innermost, so for one row ky of a window its kw * in numbers lie side by side: a run.
// Outputs come in panels of `lanes` channels; weights, and sums of their gradients, are [panel][kh][run][lanes], on
// cache lines. A sum is taken in the order of its terms, by fused multiply-adds where the ISA has them.
#pragma once

#include <cstddef>

namespace ftbnn {

// Some output positions of one row, and one panel.
struct RealTask {
  const float* in;   // the first window's first number
  std::size_t step;  // floats from one position's window to the next one's,
  std::size_t row;   // and from one row of a window to the next
  int kh, run, positions;
};

struct RealConvKernels {
  int lanes;

  // out[p * stride + o] = sum over ky, k of in[p * step + ky * row + k] * weights[ky][k][o], for the first `channels`.
  void (*forward)(const RealTask& task, const float* weights, int channels, float* out, std::size_t stride);

  // sums[ky][k][o] += sum over p of in[p * step + ky * row + k] * grad[p * stride + o], for all lanes or, `half`, the
  // first half of them; grad is read as far.
  void (*weight_gradient)(const RealTask& task, const float* grad, std::size_t stride, bool half, float* sums);
};

template <typename Kernels>
class Table;
const Table<RealConvKernels>& real_conv_table();

}  // namespace ftbnn
