#include "kernels/conv/winograd.h"
#include "kernels/epilogue/epilogue__avx512.h"

namespace ftbnn {

namespace {

constexpr int BLOCK = MOST_TILES, VECTORS = 2;

using Vector = __m512;
inline Vector fused(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
inline Vector spread(float value) { return _mm512_set1_ps(value); }
inline Vector get(const float* from) { return _mm512_loadu_ps(from); }
inline void put(float* to, Vector value) { _mm512_storeu_ps(to, value); }

}  // namespace

}  // namespace ftbnn

#include "kernels/conv/winograd__x86.h"

namespace ftbnn {

extern const WinogradKernels winograd__avx512;
const WinogradKernels winograd__avx512 = {split, transform, multiply};

}  // namespace ftbnn
