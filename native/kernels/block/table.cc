#include "base/table.h"

#include "kernels/block/block.h"

namespace ftbnn {

extern const BlockKernels block__avx512, block__avx2, block__portable;

const Table<BlockKernels>& block_table() {
  static const Table<BlockKernels> table = {
#if defined(__x86_64__)
      {"avx512", AVX512, block__avx512},
      {"avx2", AVX2, block__avx2},
#endif
      {"portable", PORTABLE, block__portable},
  };
  return table;
}

}  // namespace ftbnn
