#include "kernels/pool/rows.h"

namespace ftbnn {

extern const PoolRows pool_rows__avx512, pool_rows__avx2, pool_rows__portable;

const PoolRows& pool_rows_for(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return pool_rows__avx512;
  if (isa >= Isa::avx2) return pool_rows__avx2;
#endif
  (void)isa;
  return pool_rows__portable;
}

}  // namespace ftbnn
