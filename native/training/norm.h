// BatchNorm of a float map [n][h][w][channels], a shortcut or none, then a non-linearity or a max-pool or nothing, as
// one operator:
//
//   z    = gamma * (x - mean) / sqrt(var + eps) + beta + shortcut
//   out  = right * z where z > 0, else left * z;  or the largest z of every window
//
// mean and var are the batch's (biased) or the running ones. Backward needs x, the shortcut, and of a pool the tap of
// every output (8 bits) and the outputs; z it computes again. Sums over positions are made in fixed pieces and added in their order, in
// double precision: results do not depend on the threads.
#pragma once

#include <cstdint>
#include <functional>
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

// What makes x and takes its gradient row by row, while both are in the cache; rows are those of all images.
struct NormSource {
  // Makes x and calls made(row) when a row of it is there.
  std::function<void(Team& team, const std::function<void(std::size_t row)>& made)> make;
  // Takes gradient(row); what that points to holds until the same thread asks for another row.
  std::function<void(Team& team, const std::function<const float*(std::size_t row)>& gradient)> take;
};

// With a source x is made in forward, and its gradient goes there, not to x_grad.
void forward(const Norm& norm, const NormTensors& tensors, Team& team, const NormSource* source = nullptr);
void backward(const Norm& norm, const NormTensors& tensors, Team& team, const NormSource* source = nullptr);

}  // namespace ftbnn::training
