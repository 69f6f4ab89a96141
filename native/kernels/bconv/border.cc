#include "kernels/bconv/border.h"

#include <algorithm>

#include "kernels/epilogue/epilogue.h"

namespace ftbnn {

namespace {

// In operations that every CPU has vectors for.
std::int32_t popcount(std::uint64_t word) {
  word -= word >> 1 & 0x5555555555555555;
  word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333);
  word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0f;
  word += word >> 8;
  word += word >> 16;
  return static_cast<std::int32_t>((word + (word >> 32)) & 0x7f);
}

}  // namespace

BorderClasses::BorderClasses(int out, int stride, int kernel, int padding, int size) {
  for (int o = 0; o < out; ++o) {
    const int start = o * stride - padding;
    const Inside inside{std::clamp(-start, 0, kernel), std::clamp(size - start, 0, kernel)};
    const auto found = std::find(kinds.begin(), kinds.end(), inside);
    of.push_back(static_cast<std::uint8_t>(found - kinds.begin()));
    if (found == kinds.end()) kinds.push_back(inside);
  }
}

Borders::Borders(const BConvShape& s)
    : rows(s.zero_one ? BorderClasses(s.oh, 1, 1, 0, s.oh) : BorderClasses(s.oh, s.sh, s.kh, s.ph, s.h)),
      columns(s.zero_one ? BorderClasses(s.ow, 1, 1, 0, s.ow) : BorderClasses(s.ow, s.sw, s.kw, s.pw, s.w)),
      worth(s.zero_one ? 1 : 2),
      kh_(s.kh),
      kw_(s.kw),
      is_zero_one_(s.zero_one) {}

void Borders::find_bases(const std::uint64_t* weights, int channels, std::int32_t* base) const {
  const int words = (channels + 63) / 64;
  // sum(y, x)[o]: ones of output channel o's weights in the taps above and left of (y, x).
  std::vector<std::int32_t> ones(static_cast<std::size_t>(kh_ + 1) * static_cast<std::size_t>(kw_ + 1) * PANEL);
  const auto sum = [&](int y, int x) { return ones.data() + static_cast<std::size_t>(y * (kw_ + 1) + x) * PANEL; };
  for (int y = 0; y < kh_; ++y) {
    for (int x = 0; x < kw_; ++x) {
      std::int32_t *here = sum(y + 1, x + 1), *up = sum(y, x + 1), *left = sum(y + 1, x), *corner = sum(y, x);
      for (int o = 0; o < PANEL; ++o) here[o] = up[o] + left[o] - corner[o];
      for (int word = 0; word < words; ++word, weights += PANEL) {
        for (int o = 0; o < PANEL; ++o) here[o] += popcount(weights[o]);
      }
    }
  }
  if (is_zero_one_) {
    std::copy_n(sum(kh_, kw_), PANEL, base);
    return;
  }
  for (const Inside& r : rows.kinds) {
    for (const Inside& c : columns.kinds) {
      const int products = channels * (r.last - r.first) * (c.last - c.first);
      for (int o = 0; o < PANEL; ++o) {
        const std::int32_t inside =
            sum(r.last, c.last)[o] - sum(r.first, c.last)[o] - sum(r.last, c.first)[o] + sum(r.first, c.first)[o];
        base[o] = products + 2 * (sum(kh_, kw_)[o] - inside);
      }
      base += PANEL;
    }
  }
}

}  // namespace ftbnn
