// Binary convolution by counting bits in words of 64: how the ISAs' files see it, one output row and panel at a time.
//
//   pop[x][o] = sum over ky, kx, k of  popcount(code[ky][x * stride + kx][k] OP w[ky][kx][k][o])
//   OP is xor for codes {-1, +1}:  acc = base[border[x]][o] - 2 * pop
//   OP is and for codes {0, 1}:    acc = 2 * pop - ones[x]
//
// The image comes with its border: row ky = 0 is the first tap's row, and every tap of every output column may be read.
// Border codes are 0, which xor counts as -1; `base` puts that right: for a border class k it is
//   channels * (taps inside) + 2 * sum over outside taps of popcount(w).
// Weights start on cache lines; nothing else does. No allocation, no state.
#pragma once

#include "kernels/epilogue/epilogue.h"

namespace ftbnn {

struct BConvRow {
  const std::uint64_t* in;       // [rows][row_stride], positions of `words` words
  std::size_t row_stride;        // words from one input row to the next
  const std::uint64_t* weights;  // [kh][kw][words][PANEL]
  int words, kh, kw, stride;
  int width;     // output positions
  int channels;  // output channels of this panel, 1 to PANEL
  bool zero_one;
  const std::int32_t* base;    // [classes][PANEL], for codes {-1, +1}; past `channels` anything
  const std::uint8_t* border;  // [width], the class of each output column
  const std::int32_t* ones;    // [width], ones in the window, for codes {0, 1}
  Epilogue end;
};

// ones[x] = sum over ky, kx, k of popcount(in[ky][x * stride + kx][k])
struct OnesRow {
  const std::uint64_t* in;  // as in BConvRow
  std::size_t row_stride;
  int words, kh, kw, stride, width;
  std::int32_t* columns;  // room for (width - 1) * stride + kw numbers
  std::int32_t* ones;
};

struct WordKernels {
  void (*row)(const BConvRow&);
  void (*ones)(const OnesRow&);
};

}  // namespace ftbnn
