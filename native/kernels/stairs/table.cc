#include "base/table.h"

#include "kernels/stairs/stairs.h"

namespace ftbnn {

extern const StairsKernels stairs__avx512, stairs__avx2, stairs__portable;

const Table<StairsKernels>& stairs_table() {
  static const Table<StairsKernels> table = {
#if defined(__x86_64__)
      {"avx512", AVX512, stairs__avx512},
      {"avx2", AVX2, stairs__avx2},
#endif
      {"portable", PORTABLE, stairs__portable},
  };
  return table;
}

}  // namespace ftbnn
