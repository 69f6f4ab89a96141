// A block of a binary network, forward and backward, as one operator:
//
//   y    = conv(sign(x + input_shift), sign(proxies))                         exact integers
//   z    = gamma * (factor * y - mean) / sqrt(var + eps) + beta + shortcut
//   out  = slope * z + after,   slope = right where z > 0, else left;  or z cut to [-limit, limit]
//
// mean and var are the batch's (biased), from exact sums, or the running ones, or 0 and 1 without a norm. Backward
// needs the dense codes of x (one bit each), y (16 bits), the shortcut where slopes are two, and of x one bit, whether
// it is inside the gradient's window, or, for other rules and learned shifts, x itself; the rest it computes again.
// Sums over positions are made in fixed pieces and added in their order: results do not depend on the threads.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "base/team.h"
#include "kernels/block/block.h"
#include "training/batch.h"

namespace ftbnn::training {

struct Block {
  BatchShape shape;
  bool zero_one;
  GradientRule rule;    // of x
  float weight_bound;   // of the window of the proxies' gradient
  bool identity;        // x is the shortcut
  bool normalise;       // there is a norm
  bool batch_stats;     // it takes the batch's statistics, not the running ones
  bool byte_gradients;  // of the convolution: rounded to bytes (kernels/conv_grad/conv_grad.h)
  double eps, momentum;
  float limit;  // of z, infinite: none; with one there are no slopes
  Features usable;
};

// Null where absent or not wanted. Absent, factor and gamma and slopes are 1, beta, input_shift and after nothing.
struct BlockTensors {
  const float *x, *weight, *tail, *shortcut, *factor, *gamma, *beta, *left, *right, *input_shift, *after, *running_mean,
      *running_var;
  // Forward makes these. codes, inside: [n][h][w][words of in]. y: [n][oh][ow][out]. saved: [5][out].
  float *out, *new_mean, *new_var;
  std::uint64_t *codes, *inside;
  bool has_codes;                         // the block before has made codes and inside already
  std::uint64_t *out_codes, *out_inside;  // those of out, for a block behind with the same window, while it is at hand
  std::int16_t* y;
  float* saved;
  // Backward takes what forward took and made, and makes gradients; x_grad is the whole gradient of x, that of the
  // identity shortcut included. Where the gradient of x needs x itself, that of an identity shortcut is made apart
  // first, in shortcut_grad.
  const float* grad;
  float *x_grad, *weight_grad, *tail_grad, *shortcut_grad, *factor_grad, *gamma_grad, *beta_grad, *left_grad,
      *right_grad, *input_shift_grad, *after_grad;
};

// Seconds of the phases, for profiles.
struct ForwardTimes {
  double pack_weights, pack, conv, activate;
};
struct BackwardTimes {
  double reduce, differentiate, conv;  // conv: both gradients of the convolution
};

ForwardTimes forward(const Block& block, const BlockTensors& tensors, Team& team);
BackwardTimes backward(const Block& block, const BlockTensors& tensors, Team& team);

// Whether a bit per input is all that the gradient of x needs of x.
inline bool keeps_bits(const Block& block, const BlockTensors& tensors) {
  return block.rule.kind == GradientRule::window && tensors.input_shift == nullptr;
}

}  // namespace ftbnn::training
