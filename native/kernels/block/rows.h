// The element-wise work of a training block, over rows of channels: the contract of its kernels.
//
// A block is  out = act(scale * y + shift + shortcut)  with y the exact integers of a binary convolution and
//   act(z) = right * z where z > 0, else left * z      (all slopes per channel; ReLU is left 0, right 1)
// Everything is [positions][channels], dense; per-channel arrays have `channels` entries. `shortcut` may be null.
// a * b + c is never fused here, so every ISA gives the same floats, and backward finds the z of forward again.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"

namespace ftbnn {

struct BlockAffine {
  const float *scale, *shift, *left, *right;
  bool linear;  // both slopes are 1: z need not be known in backward
};

struct BlockRows {
  Isa isa;  // what the CPU must have

  // Bit c of a position's words: x > 0 in `signs`, |x| <= bound in `inside` (not wanted if null). Tail bits are 0.
  void (*pack)(const float* x, std::size_t positions, int channels, float bound, std::uint64_t* signs,
               std::uint64_t* inside);

  // Signs of one output channel's proxies [in][taps] into words [taps][words of in], `step` words apart; taps <= 64.
  void (*pack_proxies)(const float* proxies, int in, int taps, std::uint64_t* words, std::size_t step);

  // Integers that came as floats, |value| <= limit <= 32767: kept as y, and added to sums and to sums of squares.
  void (*keep)(const float* values, std::size_t positions, int channels, int limit, std::int16_t* y, std::int64_t* sums,
               std::int64_t* squares);

  void (*activate)(const std::int16_t* y, const float* shortcut, std::size_t positions, int channels,
                   const BlockAffine& affine, float* out);

  // Added to sums[4][channels]: dz, dz * (y - mean), and the slopes' gradients: grad * z where z <= 0 and where z > 0.
  void (*reduce)(const float* grad, const std::int16_t* y, const float* shortcut, std::size_t positions, int channels,
                 const BlockAffine& affine, const float* mean, float* sums);

  // dz = act'(z) * grad into `shortcut_grad` (not wanted if null), and grad_y = scale * dz + b * y + c.
  void (*differentiate)(const float* grad, const std::int16_t* y, const float* shortcut, std::size_t positions,
                        int channels, const BlockAffine& affine, const float* b, const float* c, float* grad_y,
                        float* shortcut_grad);
};

// The best kernels that a CPU with this ISA can run.
const BlockRows& block_rows_for(Isa isa);

}  // namespace ftbnn
