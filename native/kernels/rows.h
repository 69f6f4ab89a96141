// What happens between convolutions, one row at a time: the contracts of the small kernels.
//
// A row has `width` positions, each with `channels` floats side by side; a stride is the number of elements from one
// position to the next. Nothing is aligned, nothing past the last channel is touched, no row overlaps its result
// unless they are the same (pointwise). Floats are summed in the order given here and divided, not multiplied by a
// reciprocal; a * b + c is fused where the ISA has it, as in conv_row.h. No allocation, no state.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/conv_row.h"

namespace ftbnn {

// out[x][c] = max or average over rows r, then columns k, of in[r][k][c]
// for k from x * stride - left on, kw of them, those outside [0, columns) left out.
struct PoolRow {
  const float* in;         // column 0 of the first row of the window that lies inside the image
  std::size_t row_stride;  // floats from one input row to the next
  std::size_t in_stride;
  int rows;  // rows of the window that lie inside
  int kw, stride, left, columns;
  float divisor;  // of averages; 0: the number of positions inside
  int width, channels;
  float* out;
  std::size_t out_stride;
};

// Bit at + c of the codes of position x becomes in[x][c] > 0. Bits below `at` stay; those behind the last channel, in
// its word, become 0: runs of channels may be put together from the lowest on.
struct SignRow {
  const float* in;
  std::size_t in_stride;
  int width, channels, at;
  std::uint64_t* codes;
  std::size_t codes_stride;
};

// ones[x] = sum over ky, kx, k of popcount(in[ky][x * stride + kx][k])
struct OnesRow {
  const std::uint64_t* in;  // as in BConvRow
  std::size_t row_stride;
  int words, kh, kw, stride, width;
  std::int32_t* columns;  // room for (width - 1) * stride + kw numbers
  std::int32_t* ones;
};

// The epilogue alone, with in[x][c] for the sum. Its arrays over channels have `channels` entries; no codes.
struct PointwiseRow {
  const float* in;
  std::size_t in_stride;
  int width, channels;
  Epilogue end;
};

// out[x][c] = in[c][x]
struct InterleaveRow {
  const float* in;
  std::size_t plane_stride;  // floats from one channel to the next
  int width, channels;
  float* out;
};

// out[k] = scale[k] * in[k] + shift[k]
struct NormaliseRow {
  const std::uint8_t* in;
  const float *scale, *shift;
  int count;
  float* out;
};

struct RowKernels {
  void (*max_pool_row)(const PoolRow&);
  void (*average_pool_row)(const PoolRow&);
  void (*sign_row)(const SignRow&);
  void (*ones_row)(const OnesRow&);
  void (*pointwise_row)(const PointwiseRow&);
  void (*interleave_row)(const InterleaveRow&);
  void (*normalise_row)(const NormaliseRow&);
};

}  // namespace ftbnn
