// In vectors of this ISA.
#include "kernels/real_conv/real_conv.h"

#include <type_traits>

namespace ftbnn {

namespace {

constexpr int LANES = 16, TILE = 14;

#include "kernels/real_conv/loops.h"

}  // namespace

extern const RealConvKernels real_conv__avx512;
const RealConvKernels real_conv__avx512 = {2 * LANES, forward, weight_gradient};

}  // namespace ftbnn
