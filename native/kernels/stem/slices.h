// Stems whose weights are three signed bytes: how the ISAs' files see them, one output row and panel at a time.
//
// A weight is an integer of 24 bits in three signed bytes, w = 65536 w2 + 256 w1 + w0, a pixel a signed byte, 0 outside
// the image:
//   sum_s[x][o] = sum over k of  patch[x][k] * w_s[k][o]                  for s = 0, 1, 2; never rounded
//   acc[x][o]   = 65536 * float(sum_2) + float(256 * sum_1 + sum_0)       rounded in the second float and in the sum
//   y           = act(pieces(scale[o] * acc + offset[border[x]][o]) + shortcut[x][o])
// The rest of the epilogue as ever, with `offset` for its shift; fused where the ISA fuses.
//
// patch_row puts the window of every output column into one line of `depth` bytes, [ky][run], for all panels.
// `depth` is a multiple of 64 that may leave room behind the window: weights are 0 there, pixels anything.
// At most MAX_SLICED_DEPTH bytes make a window, or 256 * sum_1 would not fit.
#pragma once

#include "kernels/epilogue/epilogue.h"

namespace ftbnn {

constexpr int SLICES = 3, MAX_SLICED_DEPTH = 504;

struct PatchRow {
  const std::int8_t* in;   // the first tap of the row, [kh][row_stride]
  std::size_t row_stride;  // bytes
  int kh, run;             // a window has `run` bytes side by side in each of kh rows
  int step;                // bytes from one window to the next
  int width, depth;
  std::int8_t* patches;  // [width][depth], 64-byte aligned
};

struct SlicedRow {
  const std::int8_t* patches;  // [width rounded up to 16][depth], 64-byte aligned
  int depth, width;
  int channels;                // output channels of this panel, 1 to PANEL
  const std::int8_t* weights;  // [SLICES][depth / 64][2 halves of the panel][16][16 channels][4], 64-byte aligned
  const float* offset;         // [classes][PANEL]
  const std::uint8_t* border;  // [width], the class of each output column
  Epilogue end;
};

struct SliceKernels {
  void (*patches)(const PatchRow&);
  void (*row)(const SlicedRow&);
};

}  // namespace ftbnn
