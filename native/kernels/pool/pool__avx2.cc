// In vectors of this ISA.
#include "kernels/pool/pool.h"

namespace ftbnn {

namespace {

constexpr int LANES = 8;

#include "kernels/pool/loops.h"

}  // namespace

extern const PoolKernels pool__avx2;
const PoolKernels pool__avx2 = {average, spread, largest, route};

}  // namespace ftbnn
