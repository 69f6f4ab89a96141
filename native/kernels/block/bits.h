// What the vector ISAs build on their pack_word. Included inside their unnamed namespaces, as loops.h is.

template <bool Adds>
void pack_rows(const float* x, const float* add, std::size_t positions, int channels, float bound, std::uint64_t* signs,
               std::uint64_t* inside) {
  const Bound limit = spread(bound);
  for (std::size_t p = 0; p < positions; ++p) {
    for (int first = 0; first < channels; first += 64) {
      const int count = channels - first < 64 ? channels - first : 64;
      std::uint64_t sign, in;
      pack_word<Adds>(x, add + first, count, limit, sign, in);
      x += count;
      *signs++ = sign;
      if (inside != nullptr) *inside++ = in;
    }
  }
}

void pack(const float* x, const float* add, std::size_t positions, int channels, float bound, std::uint64_t* signs,
          std::uint64_t* inside) {
  add != nullptr ? pack_rows<true>(x, add, positions, channels, bound, signs, inside)
                 : pack_rows<false>(x, x, positions, channels, bound, signs, inside);
}

constexpr int MOST_TAPS = 64;
constexpr int AHEAD = 1024;  // floats that are fetched before their turn: proxies come from memory, once a step

// 64 channels are `taps` whole words of signs, tap by tap interleaved: a tap owns every taps-th bit.
// At most MOST_TAPS taps.
void pack_proxies(const float* proxies, int in, int taps, std::uint64_t* words) {
  const Bound limit = spread(0);
  const int count = (in + 63) / 64;
  const int rest = 64 % taps;
  std::uint64_t every = 0;  // each taps-th bit from bit 0
  for (int b = 0; b < 64; b += taps) every |= std::uint64_t{1} << b;
  for (int first = 0; first < in; first += 64) {
    const int channels = in - first < 64 ? in - first : 64, bits = channels * taps;
    const float* from = proxies + static_cast<std::size_t>(first) * static_cast<std::size_t>(taps);
    std::uint64_t* to = words + first / 64;
    for (int t = 0; t < taps; ++t) to[t * count] = 0;
    int filled[MOST_TAPS] = {};  // channels of each tap so far
    int lead[MOST_TAPS];         // where in a word a tap's first bit is
    for (int t = 0; t < taps; ++t) lead[t] = t;
    std::uint64_t signs[MOST_TAPS], unused;
    for (int at = 0; at < bits; at += 64) {
      for (int line = 0; line < 64; line += 16) __builtin_prefetch(from + at + AHEAD + line);
      pack_word<false>(from + at, from, bits - at < 64 ? bits - at : 64, limit, signs[at / 64], unused);
    }
    for (int at = 0; at < bits; at += 64) {
      const std::uint64_t sign = signs[at / 64];
      for (int t = 0; t < taps; ++t) {
        const std::uint64_t mask = every << lead[t];
        to[t * count] |= _pext_u64(sign, mask) << (filled[t] & 63);
        filled[t] += static_cast<int>(_mm_popcnt_u64(mask));
        lead[t] -= rest;
        if (lead[t] < 0) lead[t] += taps;
      }
    }
  }
}
