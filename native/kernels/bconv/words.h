// Binary convolution by counting bits in words of 64: how the ISAs' files see it, one output row and panel at a time.
//
// Of each kernel row, the taps of a window are neighbouring bits: a *run* of words, from any byte on, of whose last
// word a mask says which bits are the window's.
//   pop[x][o] = sum over ky, k of  popcount((run[ky][x][k] OP w[ky][k][o]) & mask[k])
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
  const std::uint8_t* in;        // [kh][row_stride] bytes, the first run of each
  std::size_t row_stride, step;  // bytes from one input row to the next, from one output to the next
  const std::uint64_t* weights;  // [kh][run][PANEL]
  int kh, run;
  std::uint64_t mask;  // of the last word of a run
  int width;           // output positions
  int channels;        // output channels of this panel, 1 to PANEL
  bool zero_one;
  const std::int32_t* base;    // [classes][PANEL], for codes {-1, +1}; past `channels` anything
  const std::uint8_t* border;  // [width], the class of each output column
  const std::int32_t* ones;    // [width], ones in the window, for codes {0, 1}
  Epilogue end;
};

struct WordKernels {
  void (*row)(const BConvRow&);
  // The ones of each position of `words` words.
  void (*ones)(const std::uint64_t* codes, std::size_t words, int positions, std::int32_t* ones);
};

}  // namespace ftbnn
