#include "kernels/conv_grad/float_operands.h"

namespace ftbnn {

extern const GradKernels grad__avx2;
const GradKernels grad__avx2 = float_kernels<6, 32>();

}  // namespace ftbnn
