// Binary convolution by adding bits, output channels in lanes: how the ISAs' files see it, some output rows at a time.
//
// A *digit* is a vector with one bit for each output channel. Weights w of three input channels under a tap meet three
// bits c of a position's codes, and of what differs
//   w1 ^ c1 + w2 ^ c2 + w3 ^ c3 = S + 2 M,    S the xor of the three, M their majority.
// Of three weights S is one of two digits and M one of eight, whatever the codes: these ten are made once for many
// positions, whose codes say which of them to add. Full adders, two operations for a bit of all output channels, then
// sum up digits of the same worth in place of numbers: a position has `digits` of them in the end, which become pop.
//   acc = base[border[x]][o] - worth * pop            as words.h has them
//
// Four threes of one tap are a *quad*: of a position 64 bits, for each three a byte 8 * (parity of c) and a byte
// 8 * (c1 + 2 c2 + 4 c3), so that a byte times a constant is an address. What is nobody's has code and weight 0.
#pragma once

#include "kernels/epilogue/epilogue.h"

namespace ftbnn {

constexpr int QUAD_CHANNELS = 12, QUAD_DIGITS = 12;
constexpr int MOST_LANES = 512, LEAST_DIGITS = 7;

// Output channels, up to MOST_LANES neighbours of a group, start with a panel.
struct AddRows {
  const std::uint64_t* quads;    // of the first tap of the first output
  std::size_t step, row_step;    // from one output to the next, from one output row to the next
  const std::uint32_t* offsets;  // [count], from there to each quad of a window
  int count;
  const std::uint8_t* weights;  // [count][QUAD_DIGITS] digits; bit 8 j + i is output channel lane_of(lanes, j, i)
  int lanes;                    // 256 or 512
  int digits;
  int rows, width, channels;
  float worth;
  const float* base;                               // [panels][row classes][column classes][PANEL]
  std::size_t panel_base, row_base;                // floats from one panel to the next, from one row class to the next
  const std::uint8_t *row_border, *column_border;  // [rows], [width], the class of each
  void* scratch;
  Epilogue end;  // of the first row and panel
};

// Eight digits turn into bytes where bits 8 j to 8 j + 7 are neighbours; low and high bytes of numbers are then put
// together in halves of 128 bits, which moves eight neighbours at a time.
constexpr int lane_of(int lanes, int j, int i) {
  return lanes / 8 * i + lanes / 16 * (j % 16 / 8) + j / 16 * 8 + j % 8;
}

struct AdderKernels {
  // Bits of positions, `words` words each, to `quads` quads each; up to 3 bytes behind a position's words are read.
  void (*spread)(const std::uint64_t* codes, std::size_t words, int positions, int quads, std::uint64_t* to);
  std::size_t (*scratch)(int width, int digits);
  void (*rows)(const AddRows&);
};

}  // namespace ftbnn
