// Convolutions of stride 2 with windows of 7 or 8, in a third of the products: how the ISAs' files see them.
//
// By the rest of row and column divided by 2, an image of C channels is one of K = 4 C channels and a window of 8 x 8
// one of 4 x 4 with stride 1. Of that, a *tile* of 3 x 3 outputs takes 36 products a channel (Winograd's F(3 x 3, 4 x
// 4), points 0, 1, -1, 2, -2 and infinity) in place of 144:
//   V = B' d B    36 numbers of each channel's 6 x 6 inputs
//   M = sum over channels of  U V            U: the weights' 36 numbers, made when they are laid out
//   y = A' M A    3 x 3 outputs
// Rounding is that of float sums in another order. Tiles start at rows and columns that are multiples of 3, so a result
// does not depend on who asked for which rows.
//
// Arranged images are [row][column % 6][channel][column / 6] with their border, so that neighbouring
// tiles are neighbours in memory: a lane of the transformation is a tile, of all else an output channel.
#pragma once

#include "kernels/epilogue/epilogue.h"

namespace ftbnn {

constexpr int TILE = 3, POINTS = 6;
constexpr int MOST_TILES = 10;  // that are multiplied at a time

// The inputs of a row of tiles.
struct WinogradInputs {
  const float* rows;       // [12][row_stride], arranged
  std::size_t row_stride;  // floats
  int channels;            // C
  std::size_t tiles;       // of a row, a multiple of 16: floats from one plane to the next
  float* column;           // room for [POINTS][3][tiles]
  float* v;                // [POINTS * POINTS][K][tiles]
};

// A row of tiles of one panel.
struct WinogradTiles {
  const float* v;
  std::size_t tiles;
  float* m;        // room for [POINTS * POINTS][MOST_TILES][PANEL]
  const float* u;  // [POINTS * POINTS][K][PANEL], on a cache line
  int k;
  int width, channels;  // outputs of a row, and of a position
  int first, last;      // rows of the tiles that are wanted, of 0 to 3
  Epilogue end;         // of row `first`
};

// to[k][t] = from[t][k] for all k below `width`: neighbours become planes, `stride` floats apart.
struct WinogradSplit {
  const float* from;
  std::size_t width, count;
  float* to;
  std::size_t stride;
};

struct WinogradKernels {
  void (*split)(const WinogradSplit&);
  void (*transform)(const WinogradInputs&);
  void (*multiply)(const WinogradTiles&);
};

}  // namespace ftbnn
