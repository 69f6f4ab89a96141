// What happens between convolutions, one row at a time: the contracts of the small kernels.
//
// A row has `width` positions, each with `channels` floats side by side; a stride is the number of elements from one
// position to the next. Nothing is aligned, nothing past the last channel is touched, no row overlaps its result
// unless they are the same (pointwise). Floats are summed in the order given here and divided, not multiplied by a
// reciprocal; a * b + c is fused where the ISA has it, as in an epilogue. No allocation, no state.
#pragma once

#include "kernels/epilogue/epilogue.h"

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
  std::size_t again;  // floats from a result to where it is written once more; 0: nowhere
};

// Bit c of the codes of position x becomes in[x][c] > threshold[c] (null: 0); those behind the last channel, in its
// word, become 0.
struct SignRow {
  const float* in;
  std::size_t in_stride;
  const float* threshold;
  int width, channels;
  std::uint64_t* codes;
  std::size_t codes_stride;
};

// The epilogue of one panel alone, with in[x][c] for the sum.
struct PointwiseRow {
  const float* in;
  std::size_t in_stride;
  int width, channels;  // 1 to PANEL
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

// Functions that are not made of straight pieces. `e` is exp to a few units in the last place (curves.h), the same
// floats on every ISA.
//   hardswish    y * min(max(y + 3, 0), 6) / 6          sigmoid  1 / (1 + e(-y))
//   hardsigmoid  min(max(y + 3, 0), 6) / 6              silu     y * sigmoid(y)
//   tanh         2 * sigmoid(2 y) - 1
enum class Curve : std::uint8_t { none, hardswish, hardsigmoid, sigmoid, silu, tanh };

struct BetweenKernels {
  void (*max_pool_row)(const PoolRow&);
  void (*average_pool_row)(const PoolRow&);
  void (*sign_row)(const SignRow&);
  void (*pointwise_row)(const PointwiseRow&);
  void (*interleave_row)(const InterleaveRow&);
  void (*normalise_row)(const NormaliseRow&);
  void (*bend)(Curve curve, float* values, std::size_t count);
};

template <typename Kernels>
class Table;
const Table<BetweenKernels>& between_table();

}  // namespace ftbnn
