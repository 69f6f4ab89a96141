// In vectors of this ISA.
#include "kernels/pool/pool.h"

namespace ftbnn {

namespace {

constexpr int LANES = 16;

#include "kernels/pool/loops.h"

}  // namespace

extern const PoolKernels pool__avx512;
const PoolKernels pool__avx512 = {average, spread, largest, route};

}  // namespace ftbnn
