#include "kernels/epilogue/epilogue__avx512.h"

namespace ftbnn {

namespace {

constexpr int TILE = 6, VECTORS = 2;  // 12 sums of a plane and 12 of all, 2 weights, 1 pixel of 32 registers

using Integers = __m512i;
using Floats = __m512;

inline Integers spread(const std::uint8_t* from) {
  std::int32_t quad;
  __builtin_memcpy(&quad, from, sizeof quad);
  return _mm512_set1_epi32(quad);
}
inline Integers quads(const std::int32_t* from) { return _mm512_load_si512(from); }
inline Floats floats(Integers value) { return _mm512_maskz_cvtepi32_ps(0xffff, value); }
inline Floats number(float value) { return _mm512_set1_ps(value); }
inline Floats fused(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }

struct Of8 {
  static Integers add(Integers sum, Integers pixels, Integers weights) {
    return _mm512_dpbusd_epi32(sum, pixels, weights);
  }
};

struct Of16 {
  static Integers add(Integers sum, Integers pixels, Integers weights) {
    return _mm512_dpwssd_epi32(sum, pixels, weights);
  }
};

}  // namespace

}  // namespace ftbnn

#include "kernels/stem/dots__x86.h"

namespace ftbnn {

extern const DotKernels dots__avx512vnni;
const DotKernels dots__avx512vnni = {{planes<std::uint8_t>, dot_row<Of8>}, {planes<std::uint16_t>, dot_row<Of16>}};

}  // namespace ftbnn
