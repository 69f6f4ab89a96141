// For any CPU.
#include "kernels/norm/norm.h"

namespace ftbnn {

namespace {

#include "kernels/norm/loops.h"

}  // namespace

extern const NormKernels norm__portable;
const NormKernels norm__portable = {moments, apply, reduce, differentiate};

}  // namespace ftbnn
