// BatchNorm of floats, with a shortcut and a non-linearity or without, over rows of channels: the contract of its
// kernels.
//
//   z = scale * (x - mean) + shift + shortcut,   out = right * z where z > 0, else left * z
//
// Everything is [positions][channels], dense; per-channel arrays have `channels` entries. `shortcut` may be null.
// Nothing is fused, so every ISA gives the same floats, and backward finds the z of forward again.
#pragma once

#include <cstddef>

namespace ftbnn {

struct NormForm {
  const float *mean, *scale, *shift, *left, *right;
  bool linear;  // both slopes are 1
};

struct NormKernels {
  // Into sums[2][channels]: x - p and its square, with p the first position; at least one position.
  void (*moments)(const float* x, std::size_t positions, int channels, float* sums);

  void (*apply)(const float* x, const float* shortcut, std::size_t positions, int channels, const NormForm& form,
                float* out);

  // Into sums[4][channels]: dz, dz * (x - mean), and the slopes' gradients: grad * z where z <= 0 and where z > 0.
  void (*reduce)(const float* grad, const float* x, const float* shortcut, std::size_t positions, int channels,
                 const NormForm& form, float* sums);

  // dz = act'(z) * grad into `shortcut_grad` (not wanted if null), and grad_x = scale * dz + (b * (x - mean) + c), or
  // scale * dz alone if b and c are null.
  void (*differentiate)(const float* grad, const float* x, const float* shortcut, std::size_t positions, int channels,
                        const NormForm& form, const float* b, const float* c, float* grad_x, float* shortcut_grad);
};

template <typename Kernels>
class Table;
const Table<NormKernels>& norm_table();

}  // namespace ftbnn
