// For any CPU.
#include "kernels/norm/rows.h"

namespace ftbnn {

namespace {

#include "kernels/norm/loops.h"

}  // namespace

extern const NormRows norm_rows__portable;
const NormRows norm_rows__portable = {Isa::portable, moments, apply, reduce, differentiate};

}  // namespace ftbnn
