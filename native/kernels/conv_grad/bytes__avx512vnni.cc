// Bytes: four to a lane of vpdpbusd, twice what bf16 has.
#include "kernels/conv_grad/byte_operands__avx512.h"

namespace ftbnn {

namespace {

struct Math {
  typedef __m512i Vector;
  typedef __m512 Floats;
  typedef SumRow Row;
  typedef int Dword;
  static constexpr int depth = 4, narrow_steps = 0;
  static void multiply_add(Vector& sum, int left, Vector right) {
    sum = _mm512_dpbusd_epi32(sum, right, _mm512_set1_epi32(left));
  }
};

}  // namespace

extern const GradKernels byte_grad__avx512vnni;
const GradKernels byte_grad__avx512vnni = byte_kernels<Math>;

}  // namespace ftbnn
