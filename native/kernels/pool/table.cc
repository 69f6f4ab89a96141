#include "base/table.h"

#include "kernels/pool/pool.h"

namespace ftbnn {

extern const PoolKernels pool__avx512, pool__avx2, pool__portable;

const Table<PoolKernels>& pool_table() {
  static const Table<PoolKernels> table = {
#if defined(__x86_64__)
      {"avx512", AVX512, pool__avx512},
      {"avx2", AVX2, pool__avx2},
#endif
      {"portable", PORTABLE, pool__portable},
  };
  return table;
}

}  // namespace ftbnn
