#include "kernels/conv_grad/float_operands.h"

namespace ftbnn {

extern const GradKernels grad_kernels__portable;
const GradKernels grad_kernels__portable = float_kernels<6, 16>(Isa::portable);

}  // namespace ftbnn
