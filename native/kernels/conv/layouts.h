// The ways in which kernels lay out a real convolution, as rows of the table: an ISA brings its loops, a layout the
// rest.
#pragma once

#include "kernels/conv/conv.h"
#include "kernels/conv/panels.h"
#include "kernels/conv/winograd.h"

namespace ftbnn {

Sizes panels_sizes(const ConvShape& shape);
std::unique_ptr<Conv> make_by_panels(const ConvShape& shape, const float* weights, const PanelKernels& kernels);

// Output channels in lanes (panels.cc).
template <const PanelKernels& kernels>
ConvKernels by_panels() {
  return {1, [](const ConvShape&) { return true; }, panels_sizes,
          [](const ConvShape& shape, const float* weights) { return make_by_panels(shape, weights, kernels); }};
}

bool suits_winograd(const ConvShape& shape);
Sizes winograd_sizes(const ConvShape& shape);
std::unique_ptr<Conv> make_by_winograd(const ConvShape& shape, const float* weights, const WinogradKernels& kernels);

// Stems of stride 2 in fewer products (winograd.cc).
template <const WinogradKernels& kernels>
ConvKernels by_winograd() {
  return {TILE, suits_winograd, winograd_sizes,
          [](const ConvShape& shape, const float* weights) { return make_by_winograd(shape, weights, kernels); }};
}

}  // namespace ftbnn
