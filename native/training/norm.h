// BatchNorm of a float map [n][h][w][channels], a shortcut or none, then a non-linearity or a max-pool or nothing, as
// one operator:
//
//   z    = gamma * (x - mean) / sqrt(var + eps) + beta + shortcut
//   out  = right * z where z > 0, else left * z;  or the largest z of every window
//
// mean and var are the batch's (biased) or the running ones. Backward needs x, the shortcut, and of a pool the tap of
// every output (8 bits); z it computes again. Sums over positions are made in fixed pieces and added in their order, in
// double precision: results do not depend on the threads.
#pragma once

#include <cstdint>
#include <optional>

#include "base/cpu.h"
#include "base/team.h"
#include "kernels/pool/pool.h"

namespace ftbnn::training {

struct Norm {
  int n, h, w, channels;
  std::optional<PoolShape> pool;  // with one there are neither slopes nor a shortcut
  bool batch_stats;               // normalise with the batch's statistics, not the running ones
  double eps, momentum;
  Features usable;
};

// Null where absent or not wanted. Absent, gamma and slopes are 1, beta is 0.
struct NormTensors {
  const float *x, *shortcut, *gamma, *beta, *left, *right, *running_mean, *running_var;
  // Forward makes these. saved: [4][channels]. taps: one per output of a pool.
  float *out, *new_mean, *new_var, *saved;
  std::uint8_t* taps;
  // Backward takes what forward took and made, and makes gradients; the shortcut's is made with that of x alone.
  const float* grad;
  float *x_grad, *shortcut_grad, *gamma_grad, *beta_grad, *left_grad, *right_grad;
};

void forward(const Norm& norm, const NormTensors& tensors, Team& team);
void backward(const Norm& norm, const NormTensors& tensors, Team& team);

}  // namespace ftbnn::training
