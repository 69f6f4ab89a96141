// For any CPU.
#include "kernels/real_conv/real_conv.h"

#include <type_traits>

namespace ftbnn {

namespace {

constexpr int LANES = 4, TILE = 4;

#include "kernels/real_conv/loops.h"

}  // namespace

extern const RealConvKernels real_conv__portable;
const RealConvKernels real_conv__portable = {2 * LANES, forward, weight_gradient};

}  // namespace ftbnn
