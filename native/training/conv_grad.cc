// Plain loops, until the kernels are there.
#include "training/conv_grad.h"

#include <cmath>
#include <cstddef>
#include <vector>

namespace ftbnn::training {

namespace {

struct Channel {
  const float* proxies;
  float* grad;
  int first, count;
};

Channel channel(const ConvShape& s, const float* weight, const float* tail, float* gw, float* gtail, int o) {
  const int inside = s.in / s.groups, outside = s.out / s.groups, taps = s.kh * s.kw;
  const int group = o / outside < s.groups - 1 ? o / outside : s.groups - 1;
  const int first = group * inside, count = group == s.groups - 1 ? s.in - first : inside;
  const bool in_tail = tail != nullptr && group == s.groups - 1;
  const int row = in_tail ? o - group * outside : o;
  const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(row) * count * taps;
  float* grad = gw == nullptr ? nullptr : (in_tail ? gtail : gw) + at;
  return {(in_tail ? tail : weight) + at, grad, first, count};
}

}  // namespace

void grad_input(const ConvShape& s, const float* gy, const float* weight, const float* tail,
                const std::uint64_t* inside, float* gx, Isa, Team& team) {
  const int words = (s.in + 63) / 64;
  team.run(s.n, [&](int n) {
    std::vector<float> sum(static_cast<std::size_t>(s.h * s.w * s.in));
    for (int oy = 0; oy < s.oh(); ++oy)
      for (int ox = 0; ox < s.ow(); ++ox)
        for (int o = 0; o < s.out; ++o) {
          const Channel ch = channel(s, weight, tail, nullptr, nullptr, o);
          const float g = gy[((static_cast<std::ptrdiff_t>(n) * s.oh() + oy) * s.ow() + ox) * s.out + o];
          for (int ky = 0; ky < s.kh; ++ky)
            for (int kx = 0; kx < s.kw; ++kx) {
              const int y = oy * s.sh - s.ph + ky, x = ox * s.sw - s.pw + kx;
              if (y < 0 || y >= s.h || x < 0 || x >= s.w) continue;
              float* to = sum.data() + (static_cast<std::ptrdiff_t>(y) * s.w + x) * s.in + ch.first;
              const float* w = ch.proxies + ky * s.kw + kx;
              for (int c = 0; c < ch.count; ++c) to[c] += w[c * s.kh * s.kw] > 0 ? g : -g;
            }
        }
    for (int p = 0; p < s.h * s.w; ++p)
      for (int c = 0; c < s.in; ++c) {
        const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(n) * s.h * s.w + p;
        if (inside[at * words + c / 64] >> (c % 64) & 1)
          gx[at * s.in + c] += sum[static_cast<std::size_t>(p * s.in + c)];
      }
  });
}

void grad_weight(const ConvShape& s, const float* gy, const std::uint64_t* codes, bool zero_one, const float* weight,
                 const float* tail, float bound, float* gw, float* gtail, Isa, Team& team) {
  const int words = (s.in + 63) / 64;
  team.run(s.out, [&](int o) {
    const Channel ch = channel(s, weight, tail, gw, gtail, o);
    for (int c = 0; c < ch.count; ++c)
      for (int ky = 0; ky < s.kh; ++ky)
        for (int kx = 0; kx < s.kw; ++kx) {
          double sum = 0;
          for (int n = 0; n < s.n; ++n)
            for (int oy = 0; oy < s.oh(); ++oy)
              for (int ox = 0; ox < s.ow(); ++ox) {
                const int y = oy * s.sh - s.ph + ky, x = ox * s.sw - s.pw + kx, in = ch.first + c;
                if (y < 0 || y >= s.h || x < 0 || x >= s.w) continue;
                const std::ptrdiff_t at = (static_cast<std::ptrdiff_t>(n) * s.h + y) * s.w + x;
                const bool one = codes[at * words + in / 64] >> (in % 64) & 1;
                const float g = gy[((static_cast<std::ptrdiff_t>(n) * s.oh() + oy) * s.ow() + ox) * s.out + o];
                sum += one ? g : zero_one ? 0.0F : -g;
              }
          const int k = (c * s.kh + ky) * s.kw + kx;
          ch.grad[k] = std::fabs(ch.proxies[k]) <= bound ? static_cast<float>(sum) : 0;
        }
  });
}

}  // namespace ftbnn::training
