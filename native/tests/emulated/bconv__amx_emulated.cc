#include "kernels/bconv/tiles__amx.h"
#include "tests/emulated/tiles.h"

namespace ftbnn {

extern const TileKernels tiles__amx_emulated;
const TileKernels tiles__amx_emulated = {expand, multiply_rows<EmulatedTiles>};

}  // namespace ftbnn
