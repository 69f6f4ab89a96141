// For any CPU.
#include "kernels/stairs/stairs.h"

namespace ftbnn {

namespace {

constexpr int LANES = 4;

#include "kernels/stairs/loops.h"

}  // namespace

extern const StairsKernels stairs__portable;
const StairsKernels stairs__portable = {climb, descend};

}  // namespace ftbnn
