// In vectors of this ISA.
#include "kernels/norm/norm.h"

namespace ftbnn {

namespace {

#include "kernels/norm/loops.h"

}  // namespace

extern const NormKernels norm__avx512;
const NormKernels norm__avx512 = {moments, apply, reduce, differentiate};

}  // namespace ftbnn
