// In vectors of this ISA.
#include "kernels/real_conv/real_conv.h"

#include <type_traits>

namespace ftbnn {

namespace {

constexpr int LANES = 4, TILE = 12;

#include "kernels/real_conv/loops.h"

}  // namespace

extern const RealConvKernels real_conv__neon;
const RealConvKernels real_conv__neon = {2 * LANES, forward, weight_gradient};

}  // namespace ftbnn
