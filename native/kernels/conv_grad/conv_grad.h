// What the gradients of a binary convolution are made of: one matrix product, and the ways its operands come to lie.
//
// An operand is left, [row][depth], or right, [depth][32 lanes]. Its elements are floats, or bf16 where `pairs` is set;
// then two neighbours of the depth stand together in the right operand: [depth / 2][32 lanes][2]. So element (k, lane)
// of a right operand is k * 32 + lane, or (k / 2 * 32 + lane) * 2 + k % 2, and a depth k that is a multiple of
// `depth_step` starts at k * 32. Right operands start on cache lines. The binary operand is always the right one: its
// -1, 0 and +1 are exact, and only gradients are rounded (to nearest, ties to even).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/cpu.h"

namespace ftbnn {

constexpr int GRAD_LANES = 32;
constexpr int GRAD_TAPS = 128;  // of a kernel at most
constexpr int GRAD_ROWS = 16;   // left and out need memory up to such a multiple of rows, whatever stands there

// out[r][l] = (adds ? out[r][l] : 0) + sum over s < segments, k < depth of left[s][r][k] * right[s][k][l]
struct GradProduct {
  const void *left, *right;
  const std::size_t *left_at, *right_at;  // [segments], where each starts, in elements
  std::size_t left_stride;                // elements from one row to the next
  int segments;
  int depth;  // of each segment, a multiple of depth_step
  int rows;
  int lanes;   // 1 to 32; the other lanes of right are finite, and of out anything
  float* out;  // [rows][32], on a cache line
  bool adds;
};

// Rows of products go where they belong: gx[c] += sums[c] where the bit is 1. Row x * ns + n is position (x, n), and
// channel c lane c % 32 of product c / 32.
struct GradScatter {
  const float* sums;         // [products][rows][32]
  std::size_t product_size;  // floats from one product to the next
  int xs, ns, channels;
  float* gx;  // channel 0 of position (0, 0)
  std::size_t gx_x, gx_n;
  const std::uint64_t* inside;  // first word of position (0, 0)
  std::size_t inside_x, inside_n;
  int first;  // the bit of channel 0
};

struct GradKernels {
  Isa isa;
  bool pairs;      // elements are bf16
  int depth_step;  // depths are multiples of this

  // Left operand, rows are positions: to[p][c] = from[p * from_stride + c], and 0 where channels <= c < depth.
  void (*pack_rows)(const float* from, std::size_t from_stride, int count, int channels, void* to,
                    std::size_t to_stride, int depth);
  // Left operand, rows are channels: to[c][k] = from[k][c], and 0 where from[k] is null or count <= k < depth.
  void (*pack_columns)(const float* const* from, int count, int channels, void* to, std::size_t to_stride, int depth);
  // Right operand: row k holds the codes of from[k]'s bits `first` and up, and 0 where from[k] is null.
  // No word past from[k][words - 1] is read; count is even where elements are pairs.
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
  double (*roof)(int steps);
};

// The best kernels that a CPU with this ISA can run.
const GradKernels& grad_kernels_for(Isa isa);

// What runs on this CPU, best first: an ISA's name, or "amx emulated" for tests of those kernels elsewhere.
std::vector<std::string> grad_kernel_names();
const GradKernels* grad_kernels_named(const std::string& name);  // null if it is not one of them

}  // namespace ftbnn
