#include "kernels/conv_grad/float_kernels.h"

namespace ftbnn {

namespace {

typedef float Vector __attribute__((vector_size(64), may_alias));

}  // namespace

extern const GradKernels grad_kernels__avx512;
const GradKernels grad_kernels__avx512 = {
    Isa::avx512, false, 1, pack_rows, pack_columns, pack_codes, pack_signs, nothing, product<Vector, 14>, nothing, scatter};

}  // namespace ftbnn
