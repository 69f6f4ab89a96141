// Real convolution with weights in panels: how the ISAs' files see it, one output row and panel at a time.
//
//   acc[x][o] = sum over ky, kx, c of  in[ky][x * stride + kx][c] * w[ky][kx][c][o]        then the epilogue
//
// Floats are summed in the order ky, kx, c, whatever the width and wherever the position lies. The image comes with its
// border: row ky = 0 is the first tap's row, and every tap of every output column may be read. Weights start on cache
// lines; nothing else does. No allocation, no state.
#pragma once

#include "kernels/epilogue/epilogue.h"

namespace ftbnn {

struct ConvRow {
  const float* in;         // [rows][row_stride], positions of `channels_in` floats
  std::size_t row_stride;  // floats from one input row to the next
  const float* weights;    // [kh][kw][channels_in][PANEL]
  int channels_in, kh, kw, stride;
  int width;     // output positions
  int channels;  // output channels of this panel, 1 to PANEL
  Epilogue end;
};

struct PanelKernels {
  void (*row)(const ConvRow&);
};

}  // namespace ftbnn
