#include "base/table.h"

#include "kernels/conv/layouts.h"

namespace ftbnn {

extern const PanelKernels panels__avx512, panels__avx2, panels__portable;

const Table<ConvKernels>& conv_table() {
  static const Table<ConvKernels> table = {
#if defined(__x86_64__)
      {"avx512", AVX512, by_panels<panels__avx512>()},
      {"avx2", AVX2, by_panels<panels__avx2>()},
#endif
      {"portable", PORTABLE, by_panels<panels__portable>()},
  };
  return table;
}

}  // namespace ftbnn
