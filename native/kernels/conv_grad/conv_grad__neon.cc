#include "kernels/conv_grad/float_operands.h"

namespace ftbnn {

extern const GradKernels grad__neon;
const GradKernels grad__neon = float_kernels<12, 16>();

}  // namespace ftbnn
