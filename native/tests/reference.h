// The specifications of the kernels in plain loops, as rows for their tables; never used for speed.
#pragma once

#include "kernels/bconv/bconv.h"
#include "kernels/conv/conv.h"
#include "kernels/stem/stem.h"

namespace ftbnn {

extern const ConvKernels reference_conv;
extern const BConvKernels reference_bconv;
StemKernels reference_stem();  // the layout of slices, with loops of the specification

// The epilogue of position x of a row.
void reference_finish(const Epilogue& end, std::size_t x, int channels, const float* sums);

}  // namespace ftbnn
