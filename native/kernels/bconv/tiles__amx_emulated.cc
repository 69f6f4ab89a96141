// The AMX kernel without AMX, for tests on machines that have AVX-512 alone.
#include "kernels/bconv/tiles__amx.h"

namespace ftbnn {

extern const TileKernels tiles__amx_emulated;
const TileKernels tiles__amx_emulated = {expand, multiply_rows<EmulatedTiles>};

}  // namespace ftbnn
