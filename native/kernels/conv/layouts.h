// The ways in which kernels lay out a real convolution, as rows of the table: an ISA brings its loops, a layout the
// rest.
#pragma once

#include "kernels/conv/conv.h"
#include "kernels/conv/panels.h"

namespace ftbnn {

Sizes panels_sizes(const ConvShape& shape);
std::unique_ptr<Conv> make_by_panels(const ConvShape& shape, const float* weights, const PanelKernels& kernels);

// Output channels in lanes (panels.cc).
template <const PanelKernels& kernels>
ConvKernels by_panels() {
  return {[](const ConvShape&) { return true; }, panels_sizes,
          [](const ConvShape& shape, const float* weights) { return make_by_panels(shape, weights, kernels); }};
}

}  // namespace ftbnn
