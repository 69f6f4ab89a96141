// The AMX kernel without AMX, for tests on machines that have AVX-512 alone.
#include "kernels/stem/slices__amx.h"

namespace ftbnn {

extern const SliceKernels slices__amx_emulated;
const SliceKernels slices__amx_emulated = {patches, multiply_row<EmulatedTiles>};

}  // namespace ftbnn
