#include <immintrin.h>

#include "kernels/conv_grad/bf16_operands.h"
#include "kernels/conv_grad/product.h"

namespace ftbnn {

namespace {

struct Math {
  typedef __m512 Vector;
  typedef __m512 Floats;
  typedef FloatRow Row;
  typedef int Dword;
  static constexpr int depth = 2, narrow_steps = 0;
  static void multiply_add(Vector& sum, int left, Vector right) {
    sum = _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(_mm512_set1_epi32(left)), reinterpret_cast<__m512bh>(right));
  }
};

}  // namespace

extern const GradKernels grad__avx512bf16;
const GradKernels grad__avx512bf16 = {2,
                                      2,
                                      nullptr,
                                      bf16::pack_rows,
                                      bf16::pack_columns,
                                      bf16::pack_codes,
                                      bf16::pack_signs,
                                      nothing,
                                      product<Math, 14>,
                                      nothing,
                                      bf16::scatter,
                                      roof<Math>};

}  // namespace ftbnn
