// In vectors of this ISA.
#include "kernels/norm/rows.h"

namespace ftbnn {

namespace {

#include "kernels/norm/loops.h"

}  // namespace

extern const NormRows norm_rows__avx512;
const NormRows norm_rows__avx512 = {Isa::avx512, moments, apply, reduce, differentiate};

}  // namespace ftbnn
