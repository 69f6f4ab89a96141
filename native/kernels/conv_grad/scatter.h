// Bits of lanes, and sums to where they belong, in plain C++: ISAs' files include this and compile it with their flags.
#pragma once

#include <algorithm>

#include "kernels/conv_grad/lanes.h"

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
  scatter_by(task, [&](float* gx, const float* sums, std::uint32_t bits, int channels) {
    const int lanes = std::min(GRAD_LANES, channels);
    if (!task.adds) std::fill_n(gx, lanes, 0.0F);
    for (int lane = 0; lane < lanes; ++lane) gx[lane] += (bits & lane_bits.of[lane]) != 0 ? sums[lane] : 0.0F;
  });
}

}  // namespace

}  // namespace ftbnn
