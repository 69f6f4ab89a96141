// Eight channels of 64 positions a vector: xor, vpopcntb, vpaddb for 512 products, whatever the channels.
#include "kernels/bconv/planes__avx512.h"

namespace ftbnn {

namespace {

constexpr int CHUNK = 8, WIDEST = 13;  // beyond, a vector of words has channels of two groups at most

struct Bits {
  using Weight = std::uint32_t;  // four equal bytes, which an operand may spread over a vector
  static constexpr int MOST = CHUNK;
  static __m512i spread(Weight weight) { return _mm512_set1_epi32(static_cast<int>(weight)); }
  static __m512i count(__m512i weight, __m512i codes) { return _mm512_popcnt_epi8(_mm512_xor_si512(codes, weight)); }
};

std::size_t pack(const std::uint8_t* chunks, int channels, int steps, std::uint8_t* to) {
  return pack_parts<ROWS, std::uint32_t>(chunks, channels, steps, to,
                                         [](std::uint32_t chunk) { return 0x01010101U * chunk; });
}

void count(const CountBlock& block) { count_block<Bits>(block); }

void spread(const SpreadRow& row) { spread_chunks<CHUNK>(row); }

}  // namespace

extern const PlaneKernels planes__bitalg;
const PlaneKernels planes__bitalg = {WIDEST, CHUNK, BLOCK, pack, spread, count, finish};

}  // namespace ftbnn
