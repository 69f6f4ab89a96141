// Rows of a binary convolution for one panel of output channels, as a product of bytes: the contract of tile kernels.
//
//   acc[y][x][o] = sum over ky, kx, c of  code[y * stride_y + ky][x * stride_x + kx][c] * w[ky][kx][c][o]
//
// with codes {-1, +1} or {0, 1} inside the image, 0 in its border, and w = +1 where the weight's bit is 1, -1 where it
// is 0. The epilogue, the meaning of its arrays and the floats it gives are those of conv_row.h.
//
// Two steps. expand_rows turns rows of bits into bytes, once for each image and group; rows may be taken in any order
// and by any thread. bconv_rows multiplies, for any rows of the output, when all rows they read are expanded.
//
// Bytes lie in lines of 64 channels, in planes by the rest of row and column divided by the stride,
//   [word][row % stride_y][column % stride_x][row / stride_y][column / stride_x][64]
// so a tap is an offset, the next output column is the next line, whatever the stride, and so is, after a few columns
// that are nobody's, the next output row. Channels past `channels` and the border are 0.
//
// Read are whole lines, up to SPARE_LINES past the last one. Alignment: 64 bytes for `bytes`, `scratch` and weights.
#pragma once

#include "kernels/conv_row.h"

namespace ftbnn {

constexpr std::size_t LINE = 64, SPARE_LINES = 32;

// One group of an image, with its border.
struct CodeImage {
  const std::uint64_t* codes;  // [rows][columns][words]
  std::int8_t* bytes;          // code_bytes(image) of them
  int rows, columns, words;
  int channels;                  // input channels, up to 64 * words
  int top, left, height, width;  // where inside the border the image lies
  int stride_y, stride_x;
  bool zero_one;
};

struct BConvRows {
  CodeImage image;
  const std::uint64_t* weights;  // [kh][kw][words][PANEL]
  int kh, kw;
  int width;                                     // output columns
  int first, last;                               // output rows
  int channels;                                  // output channels of this panel, 1 to PANEL
  void* scratch;                                 // scratch_bytes(kh * kw * words) of them, the caller's own
  Epilogue end;                                  // of output row `first`
  std::size_t shortcut_row, out_row, codes_row;  // elements from one output row to the next
};

using ExpandRowsKernel = void (*)(const CodeImage&, int first, int last);
using BConvRowsKernel = void (*)(const BConvRows&);

// Internal linkage, for files of several ISAs include this.
static inline std::size_t plane_columns(const CodeImage& image) {
  return static_cast<std::size_t>((image.columns + image.stride_x - 1) / image.stride_x);
}

static inline std::size_t plane_lines(const CodeImage& image) {
  return static_cast<std::size_t>((image.rows + image.stride_y - 1) / image.stride_y) * plane_columns(image);
}

static inline std::size_t word_lines(const CodeImage& image) {
  return static_cast<std::size_t>(image.stride_y) * static_cast<std::size_t>(image.stride_x) * plane_lines(image);
}

[[maybe_unused]] static inline std::size_t code_bytes(const CodeImage& image) {
  return (static_cast<std::size_t>(image.words) * word_lines(image) + SPARE_LINES) * LINE;
}

// A step is one word of one tap: its weights as bytes and the offset of its codes; then 32 x 32 sums.
[[maybe_unused]] static inline std::size_t scratch_bytes(std::size_t steps) {
  return steps * (PANEL * 64 + sizeof(std::size_t)) + PANEL * PANEL * sizeof(std::int32_t);
}

// Whether a convolution gains by tiles: its output positions, and the largest of the memories that it takes.
[[maybe_unused]] static inline bool suits_tiles(std::size_t positions, std::size_t bytes) {
  constexpr std::size_t LEAST_POSITIONS = 16;               // fewer leave rows of a tile empty
  constexpr std::size_t MOST_BYTES = std::size_t{1} << 27;  // what is larger as bytes stays bits
  return positions >= LEAST_POSITIONS && bytes <= MOST_BYTES;
}

}  // namespace ftbnn
