#include "base/table.h"

#include "kernels/real_conv/real_conv.h"

namespace ftbnn {

extern const RealConvKernels real_conv__avx512, real_conv__avx2, real_conv__neon, real_conv__portable;

const Table<RealConvKernels>& real_conv_table() {
  static const Table<RealConvKernels> table = {
#if defined(__x86_64__)
      {"avx512", AVX512, real_conv__avx512},
      {"avx2", AVX2, real_conv__avx2},
#elif defined(__aarch64__)
      {"neon", NEON, real_conv__neon},
#endif
      {"portable", PORTABLE, real_conv__portable},
  };
  return table;
}

}  // namespace ftbnn
