// The specifications of the kernels in plain loops, as rows for their tables; never used for speed.
#pragma once

#include "kernels/bconv/bconv.h"
#include "kernels/conv/conv.h"
#include "kernels/stem/stem.h"

namespace ftbnn {

extern const ConvKernels reference_conv;
extern const BConvKernels reference_bconv;
// The layouts of stems, with loops of the specification.
StemKernels reference_slices();
StemKernels reference_dots();

// The epilogue of position x of a row.
void reference_finish(const Epilogue& end, std::size_t x, int channels, const float* sums);

}  // namespace ftbnn
