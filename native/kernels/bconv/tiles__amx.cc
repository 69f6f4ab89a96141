#include "kernels/bconv/tiles__amx.h"

namespace ftbnn {

extern const TileKernels tiles__amx;
const TileKernels tiles__amx = {expand, multiply_rows<Tiles>};

}  // namespace ftbnn
