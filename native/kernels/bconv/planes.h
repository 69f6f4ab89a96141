// Binary convolution with neighbouring positions in lanes: how the ISAs' files see it, some positions of a panel at a
// time.
//
// Codes are planes of bytes, each with the next `chunk` channels of a position (a nibble or a byte), in planes by the
// rest of row and column divided by the stride, each group of channels by itself:
//   [chunk][row % stride_y][column % stride_x][row / stride_y][column / stride_x]
// so a chunk of a tap is an offset (a *step*), and neighbours in the output are neighbours in the plane at any stride.
// Positions are numbered through the rows of a plane, so that narrow maps fill lanes too; those at the end of a row
// that are nobody's are counted and left out. Nothing is rounded up but channels to the chunk.
//
//   pop[o][p] = sum over steps of popcount(plane[offset[step] + p] ^ w[o][step])
//   acc = base[border[x]][o] - worth * pop            as words.h has them
// Whole numbers of at most 15 bits, and so exact as floats.
//
// A panel is 32 neighbouring output channels, whatever the groups: its *pieces* are each one group's.
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

// Up to `block` positions of a piece.
struct CountBlock {
  const std::uint8_t* codes;     // the first position
  const std::uint32_t* offsets;  // [steps]
  const std::uint8_t* weights;   // as the layout packs them
  int steps, channels, positions;
  std::int16_t* sums;  // pop: [channels][block], on a cache line
};

// Some of those positions that are neighbours in one output row: sums to results.
struct FinishPlanes {
  const std::int16_t* sums;  // of the first position; [channels][sums_stride]
  std::size_t sums_stride;
  int width, channels;
  float worth;
  const float* base;           // [classes][PANEL]
  const std::uint8_t* border;  // [width]
  Epilogue end;                // of the first position
};

struct PlaneKernels {
  int widest;  // group of output channels, beyond which the ISA has something faster
  int chunk;   // channels of a byte
  int block;   // positions of a call
  std::size_t (*pack)(const std::uint8_t* chunks, int channels, int steps, std::uint8_t* to);
  void (*spread)(const SpreadRow&);
  void (*count)(const CountBlock&);
  void (*finish)(const FinishPlanes&);
};

}  // namespace ftbnn
