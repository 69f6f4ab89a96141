// The ways in which kernels lay out a stem, as rows of the table: an ISA brings its loops, a layout the rest.
#pragma once

#include "kernels/stem/dots.h"
#include "kernels/stem/slices.h"
#include "kernels/stem/stem.h"

namespace ftbnn {

bool suits_slices(const StemShape& shape);
Sizes slices_sizes(const StemShape& shape);
std::unique_ptr<Stem> make_by_slices(const StemShape& shape, const SliceKernels& kernels);

bool suits_dots(const StemShape& shape, const DotKernels& kernels);
Sizes dots_sizes(const StemShape& shape);
std::unique_ptr<Stem> make_by_dots(const StemShape& shape, const DotKernels& kernels);

// The network's own integers, of 8 or 16 bits (dots.cc).
template <const DotKernels& kernels>
StemKernels by_dots() {
  return {[](const StemShape& shape) { return suits_dots(shape, kernels); }, dots_sizes,
          [](const StemShape& shape) { return make_by_dots(shape, kernels); }};
}

// Weights in three signed bytes (slices.cc).
template <const SliceKernels& kernels>
StemKernels by_slices() {
  return {suits_slices, slices_sizes, [](const StemShape& shape) { return make_by_slices(shape, kernels); }};
}

}  // namespace ftbnn
