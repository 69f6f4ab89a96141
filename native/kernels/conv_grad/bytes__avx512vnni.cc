// Bytes: four to a lane of vpdpbusd, twice what bf16 has.
#include "kernels/conv_grad/byte_operands__avx512.h"

namespace ftbnn {

namespace {

struct Math : ByteMath {
  static constexpr int narrow_steps = 0;
  static void multiply_add(Vector& sum, int left, Vector right) {
    sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi32(left), right);
  }
};

}  // namespace

extern const TableKernels tables__avx512vnni;
double look_up_roof__avx512vnni(int steps);

namespace {

constexpr GradKernels with_tables() {
  GradKernels kernels = byte_kernels<Math>;
  kernels.roof = look_up_roof__avx512vnni;
  kernels.tables = &tables__avx512vnni;
  return kernels;
}
constexpr GradKernels tabled = with_tables();

}  // namespace

extern const GradKernels byte_grad__avx512vnni, byte_grad__avx512tables;
const GradKernels byte_grad__avx512vnni = byte_kernels<Math>;
const GradKernels byte_grad__avx512tables = tabled;

}  // namespace ftbnn
