// What the gradients of a binary convolution are made of: one matrix product, and the ways its operands come to lie.
//
// An operand is left, [row][depth], or right, [depth][32 lanes]. Its elements are floats, bf16 or bytes, 1, 2 or 4 to a
// dword (`packed`), and those of a dword are neighbours of the depth, in the right operand too:
// [depth / packed][32 lanes][packed]. So element (k, lane) of a right operand is (k / packed * 32 + lane) * packed +
// k % packed, and a depth k that is a multiple of `depth_step` starts at k * 32. Right operands start on cache lines.
// The binary operand is always the right one: its -1, 0 and +1 are exact, and only gradients are rounded.
//
// bf16 rounds to nearest, ties to even. Bytes count steps, -127 to 127 of them, of a size that each row of the left
// operand has for itself, and are rounded up or down by a chance that makes them right on average; chance is the
// value's own bits, well mixed, so equal gradients give equal bytes. A left operand holds steps + GRAD_ZERO, for the
// instruction wants it unsigned, and a product takes so many times the sum of the codes off again; sums are whole
// numbers, and exact.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ftbnn {

constexpr int GRAD_LANES = 32;
constexpr int GRAD_TAPS = 128;  // of a kernel at most
constexpr int GRAD_ROWS = 16;   // left and out need memory up to such a multiple of rows, whatever stands there

// What bytes are rounded with: so many steps are the largest magnitude, a little less than 127; and the byte of none.
constexpr float GRAD_STEPS = 126.9F;
constexpr int GRAD_ZERO = 128;

// Rows of a left operand, and where they come to lie.
struct GradRows {
  void* at;
  std::size_t stride;  // elements from one row to the next
  int depth;
  const float* rates;  // of bytes: [rows], steps in a unit
};

// out[r][l] = (adds ? out[r][l] : 0) + sum over s < segments, k < depth of left[s][r][k] * right[s][k][l]
struct GradProduct {
  const void *left, *right;
  const std::size_t* left_row;  // [segments], where each starts: at this row of left,
  const std::size_t* right_at;  // at this element of right
  std::size_t left_stride;      // elements from one row to the next
  int segments;
  int depth;  // of each segment, a multiple of depth_step
  int rows;
  int lanes;   // 1 to 32; the other lanes of right are finite, and of out anything
  float* out;  // [rows][32], on a cache line
  bool adds;
  const float* steps;  // of bytes: [rows], what a step is worth
};

// Rows of products go where they belong: gx[c] = (adds ? gx[c] : 0) + (sums[c] where the bit is 1). Row x * ns + n is
// position (x, n), and channel c lane c % 32 of product c / 32.
struct GradScatter {
  const float* sums;         // [products][rows][32]
  std::size_t product_size;  // floats from one product to the next
  int xs, ns, channels;
  float* gx;  // channel 0 of position (0, 0)
  std::size_t gx_x, gx_n;
  const std::uint64_t* inside;  // first word of position (0, 0)
  std::size_t inside_x, inside_n;
  int first;  // the bit of channel 0
  bool adds;
};

struct TableKernels;  // kernels/conv_grad/tables.h

struct GradKernels {
  int packed;      // elements of a dword: floats, bf16 or bytes
  int depth_step;  // depths are multiples of this

  // Of bytes only: largest[c] = the bits of the largest |from[p * channels + c]|, p < count.
  void (*find_largest)(const float* from, std::size_t count, int channels, std::uint32_t* largest);
  // Left operand, rows are positions: to[p][c] = from[p * from_stride + c], and 0 where channels <= c < depth.
  void (*pack_rows)(const float* from, std::size_t from_stride, int count, int channels, const GradRows& to);
  // Left operand, rows are channels: to[c][k] = from[k][c], and 0 where from[k] is null or count <= k < depth.
  void (*pack_columns)(const float* const* from, int count, int channels, const GradRows& to);
  // Right operand: row k holds the codes of from[k]'s bits `first` and up, and 0 where from[k] is null.
  // No word past from[k][words - 1] is read; count is a multiple of `packed`.
  void (*pack_codes)(const std::uint64_t* const* from, int count, int first, int words, bool zero_one, void* to);
  // Right operands, one for each tap, tap_stride elements apart: row o, lane c is the sign of
  // proxies[o * row + c * taps + tap]; rows past `outs` are 0 up to depth, lanes past `lanes` finite.
  void (*pack_signs)(const float* proxies, std::size_t row, int outs, int lanes, int taps, void* to,
                     std::size_t tap_stride, int depth);

  void (*begin)();  // before a thread's products, and after them: tile registers
  void (*product)(const GradProduct&);
  void (*end)();
  void (*scatter)(const GradScatter&);

  // The multiplications of `product` and nothing else, in registers: how many multiply-accumulates `steps` turns did.
  // Null where the build has no FTBNN_BENCH.
  double (*roof)(int steps);

  // Of bytes: products by look-up too; null where they are not faster.
  const TableKernels* tables = nullptr;
};

// Kernels of floats or bf16, and those that count in bytes.
template <typename Kernels>
class Table;
const Table<GradKernels>& grad_table();
const Table<GradKernels>& byte_grad_table();

}  // namespace ftbnn
