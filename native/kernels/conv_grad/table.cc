#include "base/table.h"

#include "kernels/conv_grad/conv_grad.h"

namespace ftbnn {

extern const GradKernels grad__amx, grad__amx_emulated, grad__avx512bf16, grad__avx512, grad__avx2, grad__neon,
    grad__portable;
extern const GradKernels byte_grad__avx512tables, byte_grad__avx512vnni, byte_grad__avx512, byte_grad__avxvnni,
    byte_grad__avx2, byte_grad__portable;

const Table<GradKernels>& grad_table() {
  static const Table<GradKernels> table = {
#if defined(__x86_64__)
      {"amx", AVX512 | feature::avx512_bf16 | feature::amx_tile | feature::amx_bf16, grad__amx},
#if defined(FTBNN_TESTS)
      {"amx_emulated", AVX512 | feature::avx512_bf16 | feature::emulated_tiles, grad__amx_emulated},
#endif
      {"avx512bf16", AVX512 | feature::avx512_bf16, grad__avx512bf16},
      {"avx512", AVX512, grad__avx512},
      {"avx2", AVX2, grad__avx2},
#elif defined(__aarch64__)
      {"neon", NEON, grad__neon},
#endif
      {"portable", PORTABLE, grad__portable},
  };
  return table;
}

const Table<GradKernels>& byte_grad_table() {
  static const Table<GradKernels> table = {
#if defined(__x86_64__)
      {"avx512tables", AVX512 | feature::avx512_vnni | feature::fast_permutes, byte_grad__avx512tables},
      {"avx512vnni", AVX512 | feature::avx512_vnni, byte_grad__avx512vnni},
      {"avx512", AVX512, byte_grad__avx512},
#if defined(FTBNN_AVXVNNI)
      {"avxvnni", AVX2 | feature::avx_vnni, byte_grad__avxvnni},
#endif
      {"avx2", AVX2, byte_grad__avx2},
#endif
      {"portable", PORTABLE, byte_grad__portable},
  };
  return table;
}

}  // namespace ftbnn
