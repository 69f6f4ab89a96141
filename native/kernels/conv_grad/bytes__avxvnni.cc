// Bytes by vpdpbusd in vectors of AVX2.
#include "kernels/conv_grad/byte_operands__avx2.h"

namespace ftbnn {

namespace {

struct Math : ByteMath {
  static constexpr int narrow_steps = 0;
  static void multiply_add(Vector& sum, int left, Vector right) {
    sum = _mm256_dpbusd_avx_epi32(sum, _mm256_set1_epi32(left), right);
    keep(sum);
  }
};

}  // namespace

extern const GradKernels byte_grad__avxvnni;
const GradKernels byte_grad__avxvnni = byte_kernels<Math>;

}  // namespace ftbnn
