// In vectors of this ISA.
#include "kernels/stairs/stairs.h"

namespace ftbnn {

namespace {

constexpr int LANES = 16;

#include "kernels/stairs/loops.h"

}  // namespace

extern const StairsKernels stairs__avx512;
const StairsKernels stairs__avx512 = {climb, descend};

}  // namespace ftbnn
