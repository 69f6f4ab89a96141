// Binary convolution by counting bits in words: how the ISAs' files see it, some output rows of a panel at a time.
//
// A panel is 32 neighbouring output channels, whatever the groups: its *pieces* are each one group's. Of each kernel
// row, the taps of a window are neighbouring bits of the group: a *run* of words, from any byte on, of whose last word
// a mask says which bits are the window's.
//   pop[x][o] = sum over the words k of a window of  popcount((code[x][k] ^ w[k][o]) & mask)       of o's piece
//   acc = base[border[x]][o] - worth * pop
// Whole numbers, of at most 24 bits where a kernel takes them through floats, and so exact.
//
// Codes {-1, +1} are worth 2: products of what differs are -1 in place of +1. Border codes are 0, which xor takes for
// -1; `base` puts that right: for a border class it is
//   channels * (taps inside) + 2 * sum over outside taps of popcount(w).
// Codes {0, 1} are worth 1, and base is popcount(w), for the sum of a * (2w - 1) is
//   pop(a & w) - pop(a & ~w) = pop(w) - pop(a ^ w),
// also where the border has a = 0.
//
// A word may also be a byte that holds four bits (nibbles, above four 0 bits): xor and popcount are then one look-up.
//
// The image comes with its border: every tap of every output column may be read.
// Weights start on cache lines; nothing else does. No allocation, no state.
#pragma once

#include "kernels/epilogue/epilogue.h"

namespace ftbnn {

struct BConvShape;

// Output channels [first, last) of a panel, which are one group's.
struct WordPiece {
  int first, last;
  const std::uint8_t* in;        // the first run of the first window
  const std::uint32_t* offsets;  // [whole + cut], bytes from there to each word of a window
  int whole, cut;                // words all of whose bits are the window's, then those with others behind the mask
  std::uint64_t mask;
  std::size_t step, row_step;  // bytes from one output to the next, from one output row to the next
  const void* weights;         // [whole + cut][PANEL] words; 0 outside of the mask. Pieces of groups alike share theirs
};

struct BConvRows {
  const WordPiece* pieces;
  int count;
  int rows, width;  // output positions
  int channels;     // output channels of this panel, 1 to PANEL
  float worth;
  const float* base;                               // [row classes][column classes][PANEL]
  std::size_t row_base;                            // floats from one row class to the next
  const std::uint8_t *row_border, *column_border;  // [rows], [width], the class of each
  Epilogue end;                                    // of the first row
};

constexpr int MOST_PANELS = 2;

struct WordKernels {
  std::size_t word;    // bytes: 4 or 8, or 1 of a nibble
  int panels_at_once;  // of one group
  bool (*can)(const BConvShape&);
  bool (*suits)(const BConvShape&);
  void (*rows)(const BConvRows* panels, int count);
  // Of nibbles: words of positions to `bytes` bytes each, a nibble to a byte, the code as its upper half.
  void (*split)(const std::uint64_t* codes, std::size_t words, int positions, std::uint8_t* to, std::size_t bytes);
};

}  // namespace ftbnn
