// Binary convolution as a product of bytes in tile registers: how the ISAs' files see it.
//
// Codes become bytes -1, 0 and +1, the border 0, in planes by the rest of row and column divided by the stride
// (tiles_layout.h). Output positions are numbered through the rows of a plane: the next output column is the next
// position, whatever the stride, and so is, after a few columns that are nobody's, the next output row. A window is a
// number of steps; in each 64 bytes of codes meet a word of weights:
//
//   acc[o][p] = sum over steps s, b < bytes[s] of  codes[at[s] + p * pitch[s] + b] * w[o][s][b],   w = +1 or -1 by bits
//
// Read are 64 bytes of a step, also those that follow its `bytes` and meet weights of 0, for up to SPARE_POSITIONS past
// the last position. Scratch and weights start on cache lines, and so do steps whose pitch is a line's.
#pragma once

#include "kernels/epilogue/epilogue.h"

namespace ftbnn {

constexpr std::size_t LINE = 64, SPARE_POSITIONS = 32;

// Where the codes of a step are: those of position 0, and how far it is to the next.
struct TileStep {
  std::size_t at;
  std::uint32_t pitch, bytes;
};

// Up to 64 channels of one row, the border among them: `width` positions of the image behind `left` of its border, then
// border up to the end; or, with codes null, border alone.
struct ExpandRow {
  const std::uint64_t* codes;  // [width][codes_stride]
  std::size_t codes_stride;    // words
  int left, width, columns, stride_x;
  int channels;
  bool zero_one;
  bool is_lines;  // 64 bytes are written, on cache lines, zeros past the channels; else a byte for each channel alone
  std::int8_t* to;
  std::size_t pitch, phase;  // bytes from one column to the next of its plane, and to the next plane
};

// Output rows [first, last) of one panel.
struct TileRows {
  const std::int8_t* bytes;
  const TileStep* steps;
  std::size_t step_count;
  const std::uint64_t* weights;  // [steps][PANEL]
  std::size_t columns;           // positions from one output row to the next
  int width;                     // output columns
  int first, last;               // output rows
  int channels;                  // output channels of this panel, 1 to PANEL
  bool has_bytes;                // the scratch holds this panel's weights as bytes already
  void* scratch;                 // tile_scratch_bytes(step_count) of them
  Epilogue end;                  // of output row `first`
};

struct TileKernels {
  void (*expand)(const ExpandRow&);
  void (*rows)(const TileRows&);
};

// A step's weights as bytes, then 32 x 32 sums. Internal linkage, for files of several ISAs include this.
[[maybe_unused]] static inline std::size_t tile_scratch_bytes(std::size_t steps) {
  return steps * PANEL * LINE + PANEL * PANEL * sizeof(std::int32_t);
}

}  // namespace ftbnn
