// Bytes by vpmaddubsw: pairs of products in 16 bits, widened before they may overflow.
#include "kernels/conv_grad/byte_operands__avx2.h"

namespace ftbnn {

namespace {

struct Math : ByteMath {
  static constexpr int narrow_steps = BYTE_PAIR_STEPS;
  static void multiply_add(Vector& sum, int left, Vector right) {
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(_mm256_set1_epi32(left), right));
    keep(sum);
  }
  static void widen(Vector& total, Vector sum) {
    total = _mm256_add_epi32(total, _mm256_madd_epi16(sum, _mm256_set1_epi16(1)));
  }
};

}  // namespace

extern const GradKernels byte_grad__avx2;
const GradKernels byte_grad__avx2 = byte_kernels<Math>;

}  // namespace ftbnn
