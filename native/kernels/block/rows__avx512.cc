// The loops in vectors of this ISA; bits come straight from comparisons, and proxies through pext.
#include <immintrin.h>

#include "kernels/block/rows.h"

namespace ftbnn {

namespace {

#include "kernels/block/loops.h"

// Up to 64 floats as bits: above 0, and within the bound.
inline void pack_word(const float* x, int count, __m512 bound, std::uint64_t& sign, std::uint64_t& in) {
  sign = in = 0;
  for (int c = 0; c < count; c += 16) {
    const __mmask16 lanes = count - c >= 16 ? 0xffff : static_cast<__mmask16>((1U << (count - c)) - 1);
    const __m512 value = _mm512_maskz_loadu_ps(lanes, x + c);
    const std::uint64_t above = _mm512_mask_cmp_ps_mask(lanes, value, _mm512_setzero_ps(), _CMP_GT_OQ);
    const std::uint64_t within = _mm512_mask_cmp_ps_mask(lanes, _mm512_abs_ps(value), bound, _CMP_LE_OQ);
    sign |= above << c;
    in |= within << c;
  }
}

using Bound = __m512;
inline Bound spread(float bound) { return _mm512_set1_ps(bound); }

#include "kernels/block/bits.h"

}  // namespace

extern const BlockRows block_rows__avx512;
const BlockRows block_rows__avx512 = {Isa::avx512, pack, pack_proxies, keep, activate, reduce, differentiate};

}  // namespace ftbnn
