// One output row of a convolution for one panel of output channels: the contract of every convolution kernel.
//
// Real convolution      acc[x][o] = sum over ky, kx, c of  in[ky][x * stride + kx][c] * w[ky][kx][c][o]
// Binary convolution    pop[x][o] = sum over ky, kx, k of  popcount(code[ky][x * stride + kx][k] OP w[ky][kx][k][o])
//   OP is xor for codes {-1, +1}:  acc = base[border[x]][o] - 2 * pop
//   OP is and for codes {0, 1}:    acc = 2 * pop - ones[x]
// Epilogue, then        y = act(scale[o] * acc + shift[o] + shortcut[x][o])
//   relu: y > 0 ? y : 0; prelu: y > 0 ? y : left * y; fprelu: y > 0 ? right * y : left * y
// Written are y (out, if wanted) and bit o of codes[x] = y > 0 (if wanted).
//
// Floats are summed in the order ky, kx, c, whatever the width and wherever the position lies. a * b + c is fused where
// the ISA has it (not in reference and portable), so floats of two ISAs differ by rounding; integers never differ.
//
// The image comes with its border: row ky = 0 is the first tap's row, and every tap of every output column may be read.
// Border codes are 0, which xor counts as -1; `base` puts that right: for a border class k it is
//   channels * (taps inside) + 2 * sum over outside taps of popcount(w).
//
// A panel has PANEL output channels; arrays over o have PANEL entries, those past `channels` zero (of `base`:
// anything), and may be read in full. `out`, `shortcut` and `codes` are touched only in the first `channels` of each
// position (codes: bits past it are written as 0). Weight panels are 64-byte aligned; nothing else is. No allocation,
// no state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ftbnn {

constexpr int PANEL = 32;

enum class Act : std::uint8_t { none, relu, prelu, fprelu };

struct Epilogue {
  const float* scale;     // [PANEL]
  const float* shift;     // [PANEL]
  const float* left;      // [PANEL], slope for y <= 0 (prelu, fprelu)
  const float* right;     // [PANEL], slope for y > 0 (fprelu)
  const float* shortcut;  // [width][shortcut_stride] or null; one input may be the output buffer itself
  std::size_t shortcut_stride;
  float* out;  // [width][out_stride] or null
  std::size_t out_stride;
  std::uint32_t* codes;  // [width][codes_stride] or null: 32 signs a position
  std::size_t codes_stride;
  Act act;
};

// Of one value of channel c. Internal linkage: files of different ISAs never share a copy.
[[maybe_unused]] static inline float activate(const Epilogue& end, int c, float y) {
  switch (end.act) {
    case Act::none:
      return y;
    case Act::relu:
      return y > 0 ? y : 0;
    case Act::prelu:
      return y > 0 ? y : end.left[c] * y;
    case Act::fprelu:
      break;
  }
  return y > 0 ? end.right[c] * y : end.left[c] * y;
}

struct ConvRow {
  const float* in;         // [rows][row_stride], positions of `channels_in` floats
  std::size_t row_stride;  // floats from one input row to the next
  const float* weights;    // [kh][kw][channels_in][PANEL]
  int channels_in, kh, kw, stride;
  int width;     // output positions
  int channels;  // output channels of this panel, 1 to PANEL
  Epilogue end;
};

struct BConvRow {
  const std::uint64_t* in;       // [rows][row_stride], positions of `words` words
  std::size_t row_stride;        // words from one input row to the next
  const std::uint64_t* weights;  // [kh][kw][words][PANEL]
  int words, kh, kw, stride;
  int width;     // output positions
  int channels;  // output channels of this panel, 1 to PANEL
  bool zero_one;
  const std::int32_t* base;    // [classes][PANEL], for codes {-1, +1}
  const std::uint8_t* border;  // [width], the class of each output column
  const std::int32_t* ones;    // [width], ones in the window, for codes {0, 1}
  Epilogue end;
};

using ConvRowKernel = void (*)(const ConvRow&);
using BConvRowKernel = void (*)(const BConvRow&);

}  // namespace ftbnn
