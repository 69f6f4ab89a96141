// Stems whose weights are integers of 8 or 16 bits: how the ISAs' files see them, one output row and panel at a time.
//
// Pixels come by planes, one for each input channel, and a plane's sums stay by themselves, for channels are scaled
// differently:
//   sum_c[x][o] = sum over ky, kx of  pixel_c[ky][x * stride + kx] * w[o][c][ky][kx]                 never rounded
//   acc[x][o]   = sum_0 + ratio[1] * sum_1 + ratio[2] * sum_2 ...                                    in floats
//   y           = act(pieces(scale[o] * acc + offset[border[x]][o]) + shortcut[x][o])
// The rest of the epilogue as ever, with `offset` for its shift; fused where the ISA fuses.
//
// A *quad* is four bytes of a window's row and what is multiplied at a time: four pixels with weights of 8 bits, or two
// pixels, of 16 bits then, with weights of 16 bits. Rows of windows are filled up to quads: weights are 0 there,
// pixels anything that may be read. Sums fit 32 bits.
#pragma once

#include "kernels/epilogue/epilogue.h"

namespace ftbnn {

// A row of an image to planes.
struct PlaneRow {
  const std::uint8_t* in;  // [width][channels]
  int width, channels;
  std::uint8_t* const* out;  // of each channel; bytes, or numbers of 16 bits
};

struct DotRow {
  const std::uint8_t* in;       // the first tap of plane 0
  std::size_t plane_stride;     // bytes
  int planes, quads;            // quads: of a plane's window
  const std::size_t* places;    // [quads], bytes from the first tap to each
  int step;                     // bytes from one window to the next
  const float* ratio;           // [planes]
  const std::int32_t* weights;  // [planes][quads][PANEL], 64-byte aligned
  const std::int32_t* start;    // [planes][PANEL], middle times the sum of those
  int width, channels;          // output positions; output channels of this panel, 1 to PANEL
  const float* offset;          // [classes][PANEL]
  const std::uint8_t* border;   // [width], the class of each output column
  int inner, outer;             // the longest run of columns of one class, [inner, outer)
  Epilogue end;
};

// For pixels of one size.
struct Dots {
  void (*planes)(const PlaneRow&);
  void (*row)(const DotRow&);
};

// By the weights' bits; null where floats do as well.
struct DotKernels {
  Dots of_8, of_16;
  int middle = 0;  // of a pixel x, x - middle is multiplied, and sums start with what that leaves out
};

}  // namespace ftbnn
