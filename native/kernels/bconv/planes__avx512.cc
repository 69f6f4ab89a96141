// Tables by nibble, 64 positions a vector: vpshufb and vpaddb for 256 products. For CPUs that count no bits in vectors.
#include <climits>

#include "kernels/bconv/planes__avx512.h"
#include "kernels/bconv/planes__nibbles.h"

namespace ftbnn {

namespace {

struct Nibbles {
  using Weight = std::uint8_t;  // the offset of a table
  static constexpr int MOST = CHUNK;
  static __m512i spread(Weight weight) {
    return _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(tables.of[0] + weight)));
  }
  static __m512i count(__m512i counts, __m512i codes) { return _mm512_shuffle_epi8(counts, codes); }
};

void count(const CountBlock& block) { count_block<Nibbles>(block); }

}  // namespace

extern const PlaneKernels planes__avx512;
const PlaneKernels planes__avx512 = {INT_MAX, CHUNK, BLOCK, pack<ROWS>, spread, count, finish};

}  // namespace ftbnn
