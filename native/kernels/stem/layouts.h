// The ways in which kernels lay out a stem, as rows of the table: an ISA brings its loops, a layout the rest.
#pragma once

#include "kernels/stem/slices.h"
#include "kernels/stem/stem.h"

namespace ftbnn {

bool suits_slices(const StemShape& shape);
Sizes slices_sizes(const StemShape& shape);
std::unique_ptr<Stem> make_by_slices(const StemShape& shape, const SliceKernels& kernels);

// Weights in three signed bytes (slices.cc).
template <const SliceKernels& kernels>
StemKernels by_slices() {
  return {suits_slices, slices_sizes, [](const StemShape& shape) { return make_by_slices(shape, kernels); }};
}

}  // namespace ftbnn
