// For any CPU; also the specification that the other files are tested against.
#include <cmath>

#include "kernels/block/block.h"

namespace ftbnn {

namespace {

#include "kernels/block/loops.h"

void pack(const float* x, const float* add, std::size_t positions, int channels, float bound, std::uint64_t* signs,
          std::uint64_t* inside) {
  for (std::size_t p = 0; p < positions; ++p) {
    for (int first = 0; first < channels; first += 64) {
      const int count = channels - first < 64 ? channels - first : 64;
      std::uint64_t sign = 0, in = 0;
      for (int c = 0; c < count; ++c, ++x) {
        const float u = add != nullptr ? *x + add[first + c] : *x;
        sign |= static_cast<std::uint64_t>(u > 0) << c;
        in |= static_cast<std::uint64_t>(std::fabs(u) <= bound) << c;
      }
      *signs++ = sign;
      if (inside != nullptr) *inside++ = in;
    }
  }
}

void pack_proxies(const float* proxies, int in, int taps, std::uint64_t* words) {
  const int count = (in + 63) / 64;
  for (int t = 0; t < taps; ++t) {
    for (int first = 0; first < in; first += 64) {
      std::uint64_t word = 0;
      for (int c = first; c < in && c < first + 64; ++c) {
        word |= static_cast<std::uint64_t>(proxies[static_cast<std::ptrdiff_t>(c) * taps + t] > 0) << (c - first);
      }
      words[t * count + first / 64] = word;
    }
  }
}

}  // namespace

extern const BlockKernels block__portable;
const BlockKernels block__portable = {pack, pack_proxies, keep, activate, reduce, differentiate, pass};

}  // namespace ftbnn
