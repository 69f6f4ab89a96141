#include "kernels/conv_grad/float_operands.h"
#include "kernels/conv_grad/product.h"

namespace ftbnn {

namespace {

struct Math {
  typedef float Vector __attribute__((vector_size(32), may_alias));
  typedef Vector Floats;
  typedef FloatRow<Vector> Row;
  typedef float Dword;
  static constexpr int depth = 1;
  static void multiply_add(Vector& sum, float left, Vector right) { sum += left * right; }
};

}  // namespace

extern const GradKernels grad_kernels__avx2;
const GradKernels grad_kernels__avx2 = {Isa::avx2,    1,          1,          nullptr, pack_rows,
                                        pack_columns, pack_codes, pack_signs, nothing, product<Math, 6>,
                                        nothing,      scatter,    roof<Math>};

}  // namespace ftbnn
