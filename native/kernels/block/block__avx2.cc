// The loops in vectors of this ISA; bits come straight from comparisons, and proxies through pext.
#include <immintrin.h>

#include "kernels/block/block.h"

namespace ftbnn {

namespace {

#include "kernels/block/loops.h"

// Up to 64 floats as bits, with what is to be added to them: above 0, and within the bound.
template <bool Adds>
inline void pack_word(const float* x, const float* add, int count, __m256 bound, std::uint64_t& sign,
                      std::uint64_t& in) {
  const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  sign = in = 0;
  for (int c = 0; c < count; c += 8) {
    float tail[2][8] = {};
    const bool whole = count - c >= 8;
    if (!whole) {
      __builtin_memcpy(tail[0], x + c, static_cast<std::size_t>(count - c) * sizeof(float));
      if (Adds) __builtin_memcpy(tail[1], add + c, static_cast<std::size_t>(count - c) * sizeof(float));
    }
    const unsigned lanes = whole ? 0xff : (1U << (count - c)) - 1;
    __m256 value = _mm256_loadu_ps(whole ? x + c : tail[0]);
    if (Adds) value = _mm256_add_ps(value, _mm256_loadu_ps(whole ? add + c : tail[1]));
    const int above = _mm256_movemask_ps(_mm256_cmp_ps(value, _mm256_setzero_ps(), _CMP_GT_OQ));
    const int within = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_and_ps(value, magnitude), bound, _CMP_LE_OQ));
    sign |= static_cast<std::uint64_t>(static_cast<unsigned>(above) & lanes) << c;
    in |= static_cast<std::uint64_t>(static_cast<unsigned>(within) & lanes) << c;
  }
}

using Bound = __m256;
inline Bound spread(float bound) { return _mm256_set1_ps(bound); }

#include "kernels/block/bits.h"

}  // namespace

extern const BlockKernels block__avx2;
const BlockKernels block__avx2 = {pack, pack_proxies, keep, activate, reduce, differentiate, pass};

}  // namespace ftbnn
