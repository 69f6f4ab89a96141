// Bytes where there is no vpdpbusd: pairs of products in 16 bits, widened before they may overflow.
#include "kernels/conv_grad/byte_operands__avx512.h"

namespace ftbnn {

namespace {

struct Math : ByteMath {
  static constexpr int narrow_steps = BYTE_PAIR_STEPS;
  static void multiply_add(Vector& sum, int left, Vector right) {
    sum = _mm512_add_epi16(sum, _mm512_maddubs_epi16(_mm512_set1_epi32(left), right));
    keep(sum);
  }
  static void widen(Vector& total, Vector sum) {
    total = _mm512_add_epi32(total, _mm512_madd_epi16(sum, _mm512_set1_epi16(1)));
  }
};

}  // namespace

extern const GradKernels byte_grad__avx512;
const GradKernels byte_grad__avx512 = byte_kernels<Math>;

}  // namespace ftbnn
