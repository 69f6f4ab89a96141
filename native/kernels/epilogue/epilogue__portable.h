// The epilogue in plain loops over channels, which a compiler turns into the vectors of its baseline.
#pragma once

#include "kernels/epilogue/epilogue.h"

namespace ftbnn {

namespace {

// 1 << o as a table: SSE2 has no shift by a different count in each lane.
struct PanelBits {
  std::uint32_t of[PANEL] = {};
  constexpr PanelBits() {
    for (int o = 0; o < PANEL; ++o) of[o] = std::uint32_t{1} << o;
  }
};
constexpr PanelBits panel_bits;

template <bool Partial>
inline void finish(const Epilogue& end, std::size_t x, int count, const float* acc) {
  const int channels = Partial ? count : PANEL;
  float y[PANEL];
  for (int o = 0; o < channels; ++o) y[o] = end.scale[o] * acc[o] + end.shift[o];
  if (end.first_left != nullptr) {
    for (int o = 0; o < channels; ++o) y[o] *= y[o] > 0 ? end.first_right[o] : end.first_left[o];
  }
  if (end.shortcut != nullptr) {
    const float* shortcut = end.shortcut + x * end.shortcut_stride;
    for (int o = 0; o < channels; ++o) y[o] += shortcut[o];
  }
  if (end.act == Act::relu) {
    for (int o = 0; o < channels; ++o) y[o] = y[o] > 0 ? y[o] : 0;
  } else if (end.act == Act::prelu) {
    for (int o = 0; o < channels; ++o) y[o] = y[o] > 0 ? y[o] : end.left[o] * y[o];
  } else if (end.act == Act::fprelu) {
    for (int o = 0; o < channels; ++o) y[o] *= y[o] > 0 ? end.right[o] : end.left[o];
  } else if (end.act == Act::clamp) {
    const float low = end.low, high = end.high;
    for (int o = 0; o < channels; ++o) y[o] = y[o] < low ? low : y[o] > high ? high : y[o];
  }
  if (end.after != nullptr) {
    for (int o = 0; o < channels; ++o) y[o] += end.after[o];
  }
  if (end.out != nullptr) {
    float* out = end.out + x * end.out_stride;
    for (int o = 0; o < channels; ++o) out[o] = y[o];
  }
  if (end.codes == nullptr) return;
  for (int copy = 0; copy <= end.copies; ++copy) {
    const float* threshold = threshold_of(end, copy);
    std::uint32_t signs = 0;
    if (threshold != nullptr) {
      for (int o = 0; o < channels; ++o) signs |= y[o] > threshold[o] ? panel_bits.of[o] : 0;
    } else {
      for (int o = 0; o < channels; ++o) signs |= y[o] > 0 ? panel_bits.of[o] : 0;
    }
    end.codes[x * end.codes_stride + static_cast<std::size_t>(copy) * end.copy_codes] = signs;
  }
}

// `acc` holds the sums of position x.
inline void finish(const Epilogue& end, std::size_t x, int channels, const float* acc) {
  channels == PANEL ? finish<false>(end, x, PANEL, acc) : finish<true>(end, x, channels, acc);
}

}  // namespace

}  // namespace ftbnn
