// In vectors of this ISA.
#include "kernels/pool/rows.h"

namespace ftbnn {

namespace {

constexpr int LANES = 8;

#include "kernels/pool/loops.h"

}  // namespace

extern const PoolRows pool_rows__avx2;
const PoolRows pool_rows__avx2 = {Isa::avx2, average, spread, largest, route};

}  // namespace ftbnn
