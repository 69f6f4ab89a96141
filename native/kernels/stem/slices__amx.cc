#include "kernels/stem/slices__amx.h"

namespace ftbnn {

extern const SliceKernels slices__amx;
const SliceKernels slices__amx = {patches, multiply_row<Tiles>};

}  // namespace ftbnn
