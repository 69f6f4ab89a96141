#include "engine/pairs.h"

namespace ftbnn {

namespace {

// Kernel sides as constants where they are not 0.
template <int Kh, int Kw>
void pair_windows(const BConvRow& row, std::uint64_t* to) {
  const int kh = Kh != 0 ? Kh : row.kh, kw = Kw != 0 ? Kw : row.kw, taps = kh * kw;
  for (int x = 0; x < row.width; ++x) {
    const std::uint64_t* in = row.in + static_cast<std::size_t>(x) * static_cast<std::size_t>(row.stride);
    const auto tap = [&](int t) { return in[static_cast<std::size_t>(t / kw) * row.row_stride + t % kw]; };
    for (int t = 0; t + 1 < taps; t += 2) *to++ = tap(t) | tap(t + 1) << 32;
    if (taps % 2 != 0) *to++ = tap(taps - 1);
  }
}

}  // namespace

AlignedArray<std::uint64_t> pair_weights(const AlignedArray<std::uint64_t>& bits, int panels, int taps) {
  const auto words = static_cast<std::size_t>((taps + 1) / 2);
  AlignedArray<std::uint64_t> pairs(static_cast<std::size_t>(panels) * words * PANEL);
  const std::uint64_t* from = bits.data();
  for (std::size_t panel = 0; panel < static_cast<std::size_t>(panels); ++panel) {
    for (int t = 0; t < taps; ++t, from += PANEL) {
      std::uint64_t* to = pairs.data() + (panel * words + static_cast<std::size_t>(t / 2)) * PANEL;
      for (int o = 0; o < PANEL; ++o) to[o] |= from[o] << (t % 2 * 32);
    }
  }
  return pairs;
}

void pair_row(BConvRow& row, std::uint64_t* windows) {
  row.kh == 3 && row.kw == 3 ? pair_windows<3, 3>(row, windows) : pair_windows<0, 0>(row, windows);
  row.words = (row.kh * row.kw + 1) / 2;
  row.in = windows;
  row.kh = row.kw = row.stride = 1;
}

}  // namespace ftbnn
