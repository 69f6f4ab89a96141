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

#include "base/team.h"
#include "kernels/pool/rows.h"

namespace ftbnn::training {

// Null where absent: gamma (1), beta (0), left and right (1), shortcut. With a pool there are neither slopes nor a
// shortcut.
struct Norm {
  int n, h, w, channels;
  std::optional<PoolShape> pool;
  bool batch_stats;  // normalise with the batch's statistics, not the running ones
  double eps, momentum;
  const float *gamma, *beta, *left, *right;
  Isa isa;
};

// saved: [4][channels], for backward. taps: one per output of a pool. The running statistics may be null.
void forward(const Norm& norm, const float* x, const float* shortcut, float* running_mean, float* running_var,
             float* saved, float* out, std::uint8_t* taps, Team& team);

// What backward writes; null where not wanted. The shortcut's is made with that of x alone.
struct NormGradients {
  float *x, *shortcut, *gamma, *beta, *left, *right;
};

void backward(const Norm& norm, const float* grad, const float* x, const float* shortcut, const std::uint8_t* taps,
              const float* saved, const NormGradients& to, Team& team);

}  // namespace ftbnn::training
