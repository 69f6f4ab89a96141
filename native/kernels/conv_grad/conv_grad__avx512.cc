#include "kernels/conv_grad/float_operands.h"

namespace ftbnn {

extern const GradKernels grad__avx512;
const GradKernels grad__avx512 = float_kernels<14, 64>();

}  // namespace ftbnn
