#include "kernels/conv_grad/float_operands.h"

namespace ftbnn {

extern const GradKernels grad__portable;
const GradKernels grad__portable = float_kernels<6, 16>();

}  // namespace ftbnn
