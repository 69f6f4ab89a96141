// In vectors of this ISA.
#include "kernels/pool/rows.h"

namespace ftbnn {

namespace {

constexpr int LANES = 16;

#include "kernels/pool/loops.h"

}  // namespace

extern const PoolRows pool_rows__avx512;
const PoolRows pool_rows__avx512 = {Isa::avx512, average, spread, largest, route};

}  // namespace ftbnn
