// The loops in vectors of this ISA; bits come straight from comparisons, and proxies through pext.
#include <immintrin.h>

#include "kernels/block/block.h"

namespace ftbnn {

namespace {

#include "kernels/block/loops.h"

// Up to 64 floats as bits, with what is to be added to them: above 0, and within the bound.
template <bool Adds>
inline void pack_word(const float* x, const float* add, int count, __m512 bound, std::uint64_t& sign,
                      std::uint64_t& in) {
  sign = in = 0;
  for (int c = 0; c < count; c += 16) {
    const __mmask16 lanes = count - c >= 16 ? 0xffff : static_cast<__mmask16>((1U << (count - c)) - 1);
    __m512 value = _mm512_maskz_loadu_ps(lanes, x + c);
    if (Adds) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(lanes, add + c));
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

extern const BlockKernels block__avx512;
const BlockKernels block__avx512 = {pack, pack_proxies, keep, activate, reduce, differentiate, pass};

}  // namespace ftbnn
