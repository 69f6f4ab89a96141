#include "kernels/conv_grad/conv_grad__amx.h"
#include "tests/emulated/tiles.h"

namespace ftbnn {

extern const GradKernels grad__amx_emulated;
const GradKernels grad__amx_emulated = kernels<EmulatedTiles>;

}  // namespace ftbnn
