// What follows the sums of a convolution, while they are in registers: the contract of every kernel that has sums.
//
//   y = act(pieces(scale[o] * acc + shift[o]) + shortcut[x][o]) + after[o]
//     pieces(z) = z, or z * (z > 0 ? first_right : first_left)
//     relu    y > 0 ? y : 0                    fprelu  y > 0 ? right * y : left * y
//     prelu   y > 0 ? y : left * y             clamp   y < low ? low : y > high ? high : y
//
// Written are y (out, if wanted) and bit o of codes[x] = y > threshold[o] (if wanted), also in copies that each have
// thresholds of their own. a * b + c is fused where the ISA has it (not in reference and portable), so floats of two
// ISAs differ by rounding; integers never differ.
//
// A panel is PANEL output channels of one group. Arrays over o have PANEL entries, those past `channels` zero, and may
// be read in full. out, shortcut and codes are touched only in the first `channels` of each position (codes: bits past
// it are written as 0).
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace ftbnn {

constexpr int PANEL = 32;

enum class Act : std::uint8_t { none, relu, prelu, fprelu, clamp };

struct Epilogue {
  const float* scale;
  const float* shift;
  const float* first_left;  // of the pieces before the shortcut; null: there are none
  const float* first_right;
  const float* left;       // prelu, fprelu
  const float* right;      // fprelu
  const float* after;      // null: nothing is added
  const float* threshold;  // null: 0
  const float* shortcut;   // [rows][shortcut_row] of positions shortcut_stride apart, or null; may be `out` itself
  std::size_t shortcut_stride, shortcut_row;
  float* out;  // or null
  std::size_t out_stride, out_row;
  std::uint32_t* codes;  // or null: 32 signs a position
  std::size_t codes_stride, codes_row;
  int copies;                              // of the codes, behind the first; only with thresholds
  std::size_t copy_codes, copy_threshold;  // elements from one copy to the next
  Act act;
  float low, high;  // clamp
};

// Internal linkage from here on: files of different ISAs never share a copy.

// A value of channel c before its shortcut.
[[maybe_unused]] static inline float bend_first(const Epilogue& end, int c, float y) {
  return end.first_left == nullptr ? y : y * (y > 0 ? end.first_right[c] : end.first_left[c]);
}

// Of one value of channel c.
[[maybe_unused]] static inline float activate(const Epilogue& end, int c, float y) {
  switch (end.act) {
    case Act::none:
      break;
    case Act::relu:
      y = y > 0 ? y : 0;
      break;
    case Act::prelu:
      y = y > 0 ? y : end.left[c] * y;
      break;
    case Act::fprelu:
      y = y > 0 ? end.right[c] * y : end.left[c] * y;
      break;
    case Act::clamp:
      y = y < end.low ? end.low : y > end.high ? end.high : y;
      break;
  }
  return end.after != nullptr ? y + end.after[c] : y;
}

// Null: 0.
[[maybe_unused]] static inline const float* threshold_of(const Epilogue& end, int copy) {
  return end.threshold == nullptr ? nullptr : end.threshold + static_cast<std::size_t>(copy) * end.copy_threshold;
}

// The signs of `count` values of position x, channels `first` and on, in all copies. The first ones clear the others.
[[maybe_unused]] static inline void sign(const Epilogue& end, std::size_t x, int first, int count, const float* y) {
  for (int copy = 0; copy <= end.copies; ++copy) {
    const float* threshold = threshold_of(end, copy);
    std::uint32_t* codes = end.codes + x * end.codes_stride + static_cast<std::size_t>(copy) * end.copy_codes;
    std::uint32_t signs = first == 0 ? 0 : *codes;
    for (int c = 0; c < count; ++c) {
      const float bound = threshold != nullptr ? threshold[first + c] : 0;
      signs |= static_cast<std::uint32_t>(y[c] > bound) << (first + c);
    }
    *codes = signs;
  }
}

// So many output rows down, or up.
[[maybe_unused]] static inline void move_rows(Epilogue& end, std::ptrdiff_t rows) {
  if (end.shortcut != nullptr) end.shortcut += rows * static_cast<std::ptrdiff_t>(end.shortcut_row);
  if (end.out != nullptr) end.out += rows * static_cast<std::ptrdiff_t>(end.out_row);
  if (end.codes != nullptr) end.codes += rows * static_cast<std::ptrdiff_t>(end.codes_row);
}

// To the output row below.
[[maybe_unused]] static inline void next_row(Epilogue& end) { move_rows(end, 1); }

// To the n-th panel behind this one, of the same group.
[[maybe_unused]] static inline Epilogue of_panel(Epilogue end, int n) {
  const std::size_t channels = static_cast<std::size_t>(n) * PANEL;
  for (const float** of : {&end.scale, &end.shift, &end.first_left, &end.first_right, &end.left, &end.right, &end.after,
                           &end.threshold, &end.shortcut}) {
    if (*of != nullptr) *of += channels;
  }
  if (end.out != nullptr) end.out += channels;
  if (end.codes != nullptr) end.codes += n;
  return end;
}

}  // namespace ftbnn
