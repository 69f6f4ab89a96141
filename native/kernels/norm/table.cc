#include "kernels/norm/rows.h"

namespace ftbnn {

extern const NormRows norm_rows__avx512, norm_rows__avx2, norm_rows__portable;

const NormRows& norm_rows_for(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return norm_rows__avx512;
  if (isa >= Isa::avx2) return norm_rows__avx2;
#endif
  (void)isa;
  return norm_rows__portable;
}

}  // namespace ftbnn
