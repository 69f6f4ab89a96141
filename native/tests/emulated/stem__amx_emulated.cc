#include "kernels/stem/slices__amx.h"
#include "tests/emulated/tiles.h"

namespace ftbnn {

extern const SliceKernels slices__amx_emulated;
const SliceKernels slices__amx_emulated = {patches, multiply_row<EmulatedTiles>};

}  // namespace ftbnn
