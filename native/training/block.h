// A block of a binary network, forward and backward, as one operator:
//
//   y    = conv(sign(x), sign(proxies))                         exact integers
//   z    = gamma * (factor * y - mean) / sqrt(var + eps) + beta + shortcut
//   out  = right * z where z > 0, else left * z
//
// mean and var are the batch's (biased), from exact sums, or the running ones. Backward needs the dense codes and the
// straight-through mask of x (one bit each), y (16 bits) and the shortcut; the rest it computes again.
// Sums over positions are made in fixed pieces and added in their order: results do not depend on the threads.
#pragma once

#include <cstdint>

#include "base/aligned.h"
#include "training/conv_grad.h"

namespace ftbnn::training {

// Null where absent: tail, factor (1), gamma (1), beta (0), left and right (1), shortcut, the running statistics.
struct Block {
  ConvShape shape;
  bool zero_one;
  float bound;          // of the straight-through gradient of x
  float weight_bound;   // and of the proxies
  bool identity;        // x is the shortcut
  bool batch_stats;     // normalise with the batch's statistics, not the running ones
  bool byte_gradients;  // of the convolution: rounded to bytes (kernels/conv_grad/conv_grad.h)
  double eps, momentum;
  const float *weight, *tail, *factor, *gamma, *beta, *left, *right;
  Isa isa;
};

// Seconds of the phases, for profiles.
struct ForwardTimes {
  double pack_weights, pack, conv, activate;
};
struct BackwardTimes {
  double reduce, differentiate, conv;  // conv: both gradients of the convolution
};

// codes, inside: [n][h][w][words of in]. y: [n][oh][ow][out]. saved: [4][out], for backward. inside may be null.
ForwardTimes forward(const Block& block, const float* x, const float* shortcut, float* running_mean, float* running_var,
                     std::uint64_t* codes, std::uint64_t* inside, std::int16_t* y, float* saved, float* out,
                     Team& team);

// What backward writes; null where not wanted. x is the whole gradient of x, that of the identity shortcut included.
struct Gradients {
  float *x, *shortcut, *weight, *tail, *gamma, *beta, *left, *right;
};

// The gradient of y is made in `scratch`, slice by slice of images, while the convolution's gradients consume it.
// scratch grows as it must, and is best kept from call to call: fresh pages cost more than what is done with them.
BackwardTimes backward(const Block& block, const float* grad, const float* shortcut, const std::uint64_t* codes,
                       const std::uint64_t* inside, const std::int16_t* y, const float* saved,
                       AlignedArray<float>& scratch, const Gradients& to, Team& team);

}  // namespace ftbnn::training
