#include "kernels/conv_grad/conv_grad__amx.h"

namespace ftbnn {

extern const GradKernels grad__amx;
const GradKernels grad__amx = kernels<Tiles>;

}  // namespace ftbnn
