#include "kernels/block/rows.h"

namespace ftbnn {

extern const BlockRows block_rows__avx512, block_rows__avx2, block_rows__portable;

const BlockRows& block_rows_for(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return block_rows__avx512;
  if (isa >= Isa::avx2) return block_rows__avx2;
#endif
  (void)isa;
  return block_rows__portable;
}

}  // namespace ftbnn
