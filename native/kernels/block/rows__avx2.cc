// The loops in vectors of this ISA; bits come straight from comparisons, and proxies through pext.
#include <immintrin.h>

#include "kernels/block/rows.h"

namespace ftbnn {

namespace {

#include "kernels/block/loops.h"

// Up to 64 floats as bits: above 0, and within the bound.
inline void pack_word(const float* x, int count, __m256 bound, std::uint64_t& sign, std::uint64_t& in) {
  const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  sign = in = 0;
  for (int c = 0; c < count; c += 8) {
    float tail[8] = {};
    const bool whole = count - c >= 8;
    if (!whole) __builtin_memcpy(tail, x + c, static_cast<std::size_t>(count - c) * sizeof(float));
    const unsigned lanes = whole ? 0xff : (1U << (count - c)) - 1;
    const __m256 value = _mm256_loadu_ps(whole ? x + c : tail);
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

extern const BlockRows block_rows__avx2;
const BlockRows block_rows__avx2 = {Isa::avx2, pack, pack_proxies, keep, activate, reduce, differentiate};

}  // namespace ftbnn
