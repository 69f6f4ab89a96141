// Binary convolution with neighbouring positions in lanes: how the ISAs' files see it, some positions of a panel at a time.
//
// Codes are planes of bytes, each with the next `chunk` channels of a position (a nibble or a byte), in planes by the rest
// of row and column divided by the stride, each group of channels by itself:
//   [chunk][row % stride_y][column % stride_x][row / stride_y][column / stride_x]
// so a chunk of a tap is an offset (a *step*), and neighbours in the output are neighbours in the plane at any stride.
// Positions are numbered through the rows of a plane, so that narrow maps fill lanes too; those at the end of a row that
// are nobody's are counted and left out. Nothing is rounded up but channels to the chunk.
//
//   pop[o][p] = sum over steps of popcount(plane[offset[step] + p] OP w[o][step])
//   OP is xor for codes {-1, +1}:  acc = base[border[x]][o] - 2 * pop
//   OP is and for codes {0, 1}:    acc = 2 * pop - ones[x]
//
// Read are whole vectors, up to `block` bytes past the last position.
#pragma once

#include "kernels/epilogue/epilogue.h"

namespace ftbnn {

constexpr int MOST_BLOCK = 128;  // positions

// Positions [0, width) of one row of codes, `step` words apart, to bytes.
struct SpreadRow {
  const std::uint64_t* codes;
  std::size_t step;
  int width, chunks;
  std::uint8_t* to;         // of chunk 0
  std::size_t plane_bytes;  // from one chunk to the next
};

// `block` positions of a panel.
struct CountBlock {
  const std::uint8_t* codes;     // the first position
  const std::uint32_t* offsets;  // [steps]
  const std::uint8_t* weights;   // of the panel, as the layout packs them
  int steps, channels;
  bool zero_one;
  std::uint16_t* sums;  // [channels][block], on a cache line
};

// Some of those positions that are neighbours in one output row: sums to results.
struct FinishPlanes {
  const std::uint16_t* sums;  // of the first position; [channels][sums_stride]
  std::size_t sums_stride;
  int width, channels;
  bool zero_one;
  const std::int32_t* base;    // [classes][PANEL]
  const std::uint8_t* border;  // [width]
  const std::int32_t* ones;    // [width]
  Epilogue end;                // of the first position
};

struct PlaneKernels {
  int chunk;                     // channels of a byte
  int block;                     // positions of a call
  int rows;                      // output channels that share a pass over the codes
  std::size_t (*pack)(const std::uint8_t* chunks, int channels, int steps, std::uint8_t* to);
  void (*spread)(const SpreadRow&);
  void (*count)(const CountBlock&);
  void (*finish)(const FinishPlanes&);
};

}  // namespace ftbnn
