#include "kernels/epilogue/epilogue__avx2.h"

namespace ftbnn {

namespace {

constexpr int TILE = 6, VECTORS = 2;  // 12 sums, 2 weights, 1 pixel of 16 registers

using Integers = __m256i;
using Floats = __m256;

inline Integers spread(const std::uint8_t* from) {
  std::int32_t quad;
  __builtin_memcpy(&quad, from, sizeof quad);
  return _mm256_set1_epi32(quad);
}
inline Integers quads(const std::int32_t* from) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(from)); }
inline Floats floats(Integers value) { return _mm256_cvtepi32_ps(value); }
inline Floats number(float value) { return _mm256_set1_ps(value); }
inline Floats fused(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }

struct Of8 {
  static Integers add(Integers sum, Integers pixels, Integers weights) {
    return _mm256_dpbusd_avx_epi32(sum, pixels, weights);
  }
};

struct Of16 {
  static Integers add(Integers sum, Integers pixels, Integers weights) {
    return _mm256_dpwssd_avx_epi32(sum, pixels, weights);
  }
};

}  // namespace

}  // namespace ftbnn

#include "kernels/stem/dots__x86.h"

namespace ftbnn {

extern const DotKernels dots__avxvnni;
const DotKernels dots__avxvnni = {{planes<std::uint8_t>, dot_row<Of8>}, {planes<std::uint16_t>, dot_row<Of16>}};

}  // namespace ftbnn
