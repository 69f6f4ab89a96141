// Binary convolution as a product of bytes in tile registers: how the ISAs' files see it.
//
// Codes become bytes -1, 0 and +1 in lines of 64 channels, in planes by the rest of row and column divided by the
// stride, each group of channels by itself:
//   [word][row % stride_y][column % stride_x][row / stride_y][column / stride_x][64]
// so a tap is an offset, the next output column is the next line, whatever the stride, and so is, after a few columns
// that are nobody's, the next output row. Channels past the group's and the border are 0.
//
// Read are whole lines, up to SPARE_LINES past the last one. Bytes, scratch and weights start on cache lines.
#pragma once

#include "kernels/epilogue/epilogue.h"

namespace ftbnn {

constexpr std::size_t LINE = 64, SPARE_LINES = 32;

// The bytes of one group of an image, with its border.
struct BytePlanes {
  int rows, columns, words, channels;
  int stride_y, stride_x;
};

// One row of it: `width` positions of the image behind `left` of its border, then border up to the end; or, with codes
// null, border alone.
struct ExpandRow {
  BytePlanes planes;
  int row, left, width;
  const std::uint64_t* codes;  // [width][codes_stride]
  std::size_t codes_stride;    // words
  bool zero_one;
  std::int8_t* bytes;  // of all planes
};

// Output rows [first, last) of one panel.
struct TileRows {
  BytePlanes planes;
  const std::int8_t* bytes;
  const std::uint64_t* weights;  // [kh][kw][words][PANEL]
  int kh, kw;
  int width;        // output columns
  int first, last;  // output rows
  int channels;     // output channels of this panel, 1 to PANEL
  bool has_bytes;   // the scratch holds this panel's weights as bytes already
  void* scratch;    // tile_scratch_bytes(kh * kw * words) of them
  Epilogue end;     // of output row `first`
};

struct TileKernels {
  void (*expand)(const ExpandRow&);
  void (*rows)(const TileRows&);
};

// Internal linkage, for files of several ISAs include this.
static inline std::size_t plane_columns(const BytePlanes& planes) {
  return static_cast<std::size_t>((planes.columns + planes.stride_x - 1) / planes.stride_x);
}

static inline std::size_t plane_lines(const BytePlanes& planes) {
  return static_cast<std::size_t>((planes.rows + planes.stride_y - 1) / planes.stride_y) * plane_columns(planes);
}

static inline std::size_t word_lines(const BytePlanes& planes) {
  return static_cast<std::size_t>(planes.stride_y) * static_cast<std::size_t>(planes.stride_x) * plane_lines(planes);
}

[[maybe_unused]] static inline std::size_t plane_bytes(const BytePlanes& planes) {
  return (static_cast<std::size_t>(planes.words) * word_lines(planes) + SPARE_LINES) * LINE;
}

// A step is one word of one tap: its weights as bytes and the offset of its codes; then 32 x 32 sums.
[[maybe_unused]] static inline std::size_t tile_scratch_bytes(std::size_t steps) {
  return steps * (PANEL * 64 + sizeof(std::size_t)) + PANEL * PANEL * sizeof(std::int32_t);
}

}  // namespace ftbnn
