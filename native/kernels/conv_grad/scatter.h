// Bits of lanes, and sums to where they belong, in plain C++: ISAs' files include this and compile it with their flags.
#pragma once

#include <algorithm>

#include "kernels/conv_grad/bits_at.h"
#include "kernels/conv_grad/conv_grad.h"

namespace ftbnn {

namespace {

struct LaneBits {
  std::uint32_t of[GRAD_LANES] = {};
  constexpr LaneBits() {
    for (int lane = 0; lane < GRAD_LANES; ++lane) of[lane] = std::uint32_t{1} << lane;
  }
};
constexpr LaneBits lane_bits;

void scatter(const GradScatter& task) {
  const int words = (task.first + task.channels + 63) / 64;
  for (int n = 0; n < task.ns; ++n) {
    for (int x = 0; x < task.xs; ++x) {
      const float* sums = task.sums + (x * task.ns + n) * GRAD_LANES;
      float* gx = task.gx + x * task.gx_x + n * task.gx_n;
      const std::uint64_t* inside = task.inside + x * task.inside_x + n * task.inside_n;
      for (int c = 0; c < task.channels; c += GRAD_LANES, sums += task.product_size, gx += GRAD_LANES) {
        const std::uint32_t bits = bits_at(inside, task.first + c, words);
        const int lanes = std::min(GRAD_LANES, task.channels - c);
        for (int lane = 0; lane < lanes; ++lane) gx[lane] += (bits & lane_bits.of[lane]) != 0 ? sums[lane] : 0.0F;
      }
    }
  }
}

}  // namespace

}  // namespace ftbnn
