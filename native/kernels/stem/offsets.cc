#include "kernels/stem/offsets.h"

#include <algorithm>

namespace ftbnn {

namespace {

constexpr std::size_t MAX_OFFSETS = std::size_t{1} << 20;

std::size_t z(int value) { return static_cast<std::size_t>(value); }

}  // namespace

StemOffsets::StemOffsets(const StemShape& s, int zero)
    : rows_(s.oh, s.sh, s.kh, s.ph, s.h),
      columns_(s.ow, s.sw, s.kw, s.pw, s.w),
      offset_(panel_count(s.outs()) * classes() * PANEL) {
  for (int o = 0; o < s.out; ++o) {
    const float* weights = s.weights + z(o) * z(s.in) * z(s.taps());  // [channel][tap]
    const double outer = s.scale != nullptr ? s.scale[o] : 1, bias = s.shift != nullptr ? s.shift[o] : 0;
    float* offset = offset_.data() + z(o / PANEL) * classes() * PANEL + z(o % PANEL);
    for (const Inside& r : rows_.kinds) {
      for (const Inside& c : columns_.kinds) {
        double constant = 0;
        for (int channel = 0; channel < s.in; ++channel) {
          const double at_zero = static_cast<double>(zero) * s.pixel_scale[channel] + s.pixel_shift[channel];
          for (int ky = r.first; ky < r.last; ++ky) {
            for (int kx = c.first; kx < c.last; ++kx) {
              constant += weights[channel * s.taps() + ky * s.kw + kx] * at_zero;
            }
          }
        }
        *offset = static_cast<float>(outer * constant + bias);
        offset += PANEL;
      }
    }
  }
}

std::size_t StemOffsets::most(const ConvShape& s) {
  const auto classes = [](int out, int kernel) { return z(std::min(out, 2 * kernel + 1)); };
  return panel_count(s.outs()) * classes(s.oh, s.kh) * classes(s.ow, s.kw) * PANEL;
}

bool StemOffsets::fits(const ConvShape& s) { return most(s) <= MAX_OFFSETS; }

const float* StemOffsets::row(int panel, int y) const {
  return offset_.data() + (z(panel) * classes() + z(rows_.of[z(y)]) * columns_.count()) * PANEL;
}

}  // namespace ftbnn
