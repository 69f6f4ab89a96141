#include "base/table.h"

#include "kernels/between/between.h"

namespace ftbnn {

extern const BetweenKernels between__avx512, between__avx2, between__neon, between__simd128, between__portable;

const Table<BetweenKernels>& between_table() {
  static const Table<BetweenKernels> table = {
#if defined(__x86_64__)
      {"avx512", AVX512, between__avx512},
      {"avx2", AVX2, between__avx2},
#elif defined(__aarch64__)
      {"neon", NEON, between__neon},
#elif defined(__wasm__)
      {"simd128", feature::simd128, between__simd128},
#endif
      {"portable", PORTABLE, between__portable},
  };
  return table;
}

}  // namespace ftbnn
