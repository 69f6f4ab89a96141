#include "base/table.h"

#include "kernels/conv/layouts.h"

namespace ftbnn {

extern const WinogradKernels winograd__avx512, winograd__avx2;
extern const PanelKernels panels__avx512, panels__avx2, panels__neon, panels__simd128, panels__portable;

const Table<ConvKernels>& conv_table() {
  static const Table<ConvKernels> table = {
#if defined(__x86_64__)
      {"avx512 winograd", AVX512 | feature::other_rounding, by_winograd<winograd__avx512>()},
      {"avx512", AVX512, by_panels<panels__avx512>()},
      {"avx2 winograd", AVX2 | feature::other_rounding, by_winograd<winograd__avx2>()},
      {"avx2", AVX2, by_panels<panels__avx2>()},
#elif defined(__aarch64__)
      {"neon", NEON, by_panels<panels__neon>()},
#elif defined(__wasm__)
      {"simd128", feature::simd128, by_panels<panels__simd128>()},
#endif
      {"portable", PORTABLE, by_panels<panels__portable>()},
  };
  return table;
}

}  // namespace ftbnn
