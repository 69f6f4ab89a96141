// For any CPU.
#include "kernels/pool/rows.h"

namespace ftbnn {

namespace {

constexpr int LANES = 4;

#include "kernels/pool/loops.h"

}  // namespace

extern const PoolRows pool_rows__portable;
const PoolRows pool_rows__portable = {Isa::portable, average, spread, largest, route};

}  // namespace ftbnn
