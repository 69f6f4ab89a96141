#include "kernels/epilogue/epilogue__avx2.h"

namespace ftbnn {

namespace {

constexpr int BLOCK = 6, VECTORS = 2;

using Vector = __m256;
inline Vector fused(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
inline Vector spread(float value) { return _mm256_set1_ps(value); }
inline Vector get(const float* from) { return _mm256_loadu_ps(from); }
inline void put(float* to, Vector value) { _mm256_storeu_ps(to, value); }

}  // namespace

}  // namespace ftbnn

#include "kernels/conv/winograd__x86.h"

namespace ftbnn {

extern const WinogradKernels winograd__avx2;
const WinogradKernels winograd__avx2 = {split, transform, multiply};

}  // namespace ftbnn
