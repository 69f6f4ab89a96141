#include "base/table.h"

#include "kernels/norm/norm.h"

namespace ftbnn {

extern const NormKernels norm__avx512, norm__avx2, norm__portable;

const Table<NormKernels>& norm_table() {
  static const Table<NormKernels> table = {
#if defined(__x86_64__)
      {"avx512", AVX512, norm__avx512},
      {"avx2", AVX2, norm__avx2},
#endif
      {"portable", PORTABLE, norm__portable},
  };
  return table;
}

}  // namespace ftbnn
