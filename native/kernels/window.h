// A convolution over an image, whatever its numbers are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/groups.h"

namespace ftbnn {

// What a kernel's operands take, in bytes: weights as long as the network lives, an arranged image and scratch of each
// thread as long as the convolution runs, and what is needed while weights are laid out alone. 64 bits also where
// memory has 32: sizes are compared before they are used.
struct Sizes {
  std::uint64_t weights = 0, arranged = 0, scratch = 0, preparing = 0;
};

struct ConvShape {
  int in, out, groups;         // channels
  int h, w, oh, ow;            // of the image, of the result
  int kh, kw, sh, sw, ph, pw;  // the window; the padding is that at the top and at the left

  Groups ins() const { return {in, groups}; }
  Groups outs() const { return {out, groups}; }
  int taps() const { return kh * kw; }
  std::size_t positions() const { return static_cast<std::size_t>(oh) * static_cast<std::size_t>(ow); }

  std::uint64_t border_positions() const {
    return static_cast<std::uint64_t>(rows()) * static_cast<std::uint64_t>(columns());
  }

  // Rows and columns of the image with its border: all that windows touch.
  int rows() const { return std::max((oh - 1) * sh + kh, ph + h); }
  // Behind the last of those rows that output rows up to `last` read.
  int end_row(int last) const { return (last - 1) * sh + kh; }
  int columns() const { return std::max((ow - 1) * sw + kw, pw + w); }

  std::uint64_t macs() const {
    const Groups i = ins(), o = outs();
    const auto product = [&](int g) {
      return static_cast<std::uint64_t>(i.size(g)) * static_cast<std::uint64_t>(o.size(g));
    };
    const std::uint64_t channels = static_cast<std::uint64_t>(groups - 1) * product(0) + product(groups - 1);
    return channels * static_cast<std::uint64_t>(taps()) * positions();
  }
};

}  // namespace ftbnn
