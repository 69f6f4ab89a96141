// In vectors of this ISA.
#include "kernels/stairs/stairs.h"

namespace ftbnn {

namespace {

constexpr int LANES = 8;

#include "kernels/stairs/loops.h"

}  // namespace

extern const StairsKernels stairs__avx2;
const StairsKernels stairs__avx2 = {climb, descend};

}  // namespace ftbnn
