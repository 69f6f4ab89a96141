// The element-wise work of a training block, over rows of channels: the contract of its kernels.
//
// A block is  out = act(scale * y + shift + shortcut) + after  with y the exact integers of a binary convolution and
//   act(z) = right * z where z > 0, else left * z      (all slopes per channel; ReLU is left 0, right 1)
//   or, where there is a limit, z cut to [-limit, limit], with a gradient inside alone (Hardtanh; the slopes are 1)
// Everything is [positions][channels], dense; per-channel arrays have `channels` entries. `shortcut` may be null.
// a * b + c is never fused here, so every ISA gives the same floats, and backward finds the z of forward again.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ftbnn {

struct BlockAffine {
  const float *scale, *shift, *left, *right;
  const float* after;  // null: nothing is added
  bool linear;         // both slopes are 1 and there is no limit: z need not be known in backward
  float limit;         // not a number: none, and every comparison with it is false
};

// What stands for the derivative of a sign (ftbnn/nn/rules.py): d(x) =
//   window      1 where |x| <= a, else 0
//   polynomial  2 - 2|x| where that is positive, else 0
//   tanh        b a (1 - tanh(a x)^2)
struct GradientRule {
  enum Kind { window, polynomial, tanh } kind;
  float a, b;
};

struct BlockKernels {
  // Bit c of a position's words: u > 0 in `signs`, |u| <= bound in `inside` (not wanted if null), u = x + add (x, if
  // add is null). Tail bits are 0.
  void (*pack)(const float* x, const float* add, std::size_t positions, int channels, float bound, std::uint64_t* signs,
               std::uint64_t* inside);

  // Signs of one output channel's proxies [in][taps] into words [taps][words of in]; taps <= 64.
  void (*pack_proxies)(const float* proxies, int in, int taps, std::uint64_t* words);

  // Integers that came as floats, |value| <= limit <= 32767: kept as y, and added to sums and to sums of squares.
  void (*keep)(const float* values, std::size_t positions, int channels, int limit, std::int16_t* y, std::int64_t* sums,
               std::int64_t* squares);

  void (*activate)(const std::int16_t* y, const float* shortcut, std::size_t positions, int channels,
                   const BlockAffine& affine, float* out);

  // Added to sums[5][channels]: dz, dz * (y - mean), the slopes' gradients, grad * z where z <= 0 and where z > 0, and,
  // if there is something added behind, grad.
  void (*reduce)(const float* grad, const std::int16_t* y, const float* shortcut, std::size_t positions, int channels,
                 const BlockAffine& affine, const float* mean, float* sums);

  // dz = act'(z) * grad into `shortcut_grad` (not wanted if null), and grad_y = scale * dz + b * y + c.
  // largest[channels] (not wanted if null) becomes the bits of the largest |grad_y| so far: what is not a number is
  // larger than any.
  void (*differentiate)(const float* grad, const std::int16_t* y, const float* shortcut, std::size_t positions,
                        int channels, const BlockAffine& affine, const float* b, const float* c, float* grad_y,
                        float* shortcut_grad, std::uint32_t* largest);

  // The gradient of codes becomes that of x: grad *= d(x + add), added to sums[channels]; then grad += through, if that
  // is not null.
  void (*pass)(const float* x, const float* add, const float* through, std::size_t positions, int channels,
               const GradientRule& rule, float* grad, float* sums);
};

template <typename Kernels>
class Table;
const Table<BlockKernels>& block_table();

}  // namespace ftbnn
