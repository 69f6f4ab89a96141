// For any CPU.
#include "kernels/pool/pool.h"

namespace ftbnn {

namespace {

constexpr int LANES = 4;

#include "kernels/pool/loops.h"

}  // namespace

extern const PoolKernels pool__portable;
const PoolKernels pool__portable = {average, spread, largest, route};

}  // namespace ftbnn
