#include "kernels/conv_grad/float_kernels.h"

namespace ftbnn {

namespace {

typedef float Vector __attribute__((vector_size(32), may_alias));

}  // namespace

extern const GradKernels grad_kernels__avx2;
const GradKernels grad_kernels__avx2 = {
    Isa::avx2, false, 1, pack_rows, pack_columns, pack_codes, pack_signs, nothing, product<Vector, 6>, nothing, scatter};

}  // namespace ftbnn
