// The gradients of a binary convolution: what training needs of it going backward.
//
// Tensors are dense and channels last: gy and gx are [n][h][w][c] floats. Bits stand with their position: [n][h][w] of
// ceil(c / 64) words, bit c % 64 of word c / 64. Groups share the channels as nn.BConv does: floor(c / groups) each, in
// and out, and the last takes the remainder too. Proxies lie as PyTorch keeps them, [out][in of a group][kh][kw]; where
// the groups are uneven, those of the last stand in `tail`, which is otherwise not read.
//
// gy is what gets rounded: to bf16 (nearest, ties to even) with avx512bf16 and amx, not at all below. Sums are float.
// bf16 keeps 8 bits, so a rounded gy is off by at most 2^-9 of itself and a gradient by 2^-9 of the sum of |gy| that it
// adds up, beside what float sums lose. Kernels of bytes round to 1/126.9 of the largest |gy| of an image for gx, and
// of a channel in a slice of images for gw, up or down by chance. The result does not depend on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/team.h"
#include "kernels/conv_grad/conv_grad.h"
#include "training/batch.h"

namespace ftbnn::training {

// gy of some images, and, for kernels of bytes, [images][channels], the bits of its largest magnitudes.
struct MadeGradient {
  const float* gy;
  const std::uint32_t* largest;
};

// gy of images first ... first + count - 1: asked for slice by slice, by the calling thread, so that it may be made
// only then, in a buffer that fits a cache, with the same team. It must stay until the next call,
// and must not itself ask for gradients.
using GradSource = std::function<MadeGradient(int first, int count)>;

// All of gy, made already.
GradSource whole(const BatchShape& shape, const float* gy, const GradKernels& kernels, Team& team);

// gx[n][y][x][c] += sum over o, ky, kx of gy[n][(y + ph - ky) / sh][(x + pw - kx) / sw][o] * sign(weight[o][c][ky][kx])
// where `inside` has the element's bit (the straight-through mask); the other elements of gx stay. Unless it adds, gx
// counts as 0 before.
struct ToInput {
  const std::uint64_t* inside;
  float* gx;
  bool adds;
};

// gw[o][c][ky][kx] = sum over n, oy, ox of gy[n][oy][ox][o] * code[n][oy * sh + ky - ph][ox * sw + kx - pw][c]
// where |weight[o][c][ky][kx]| <= bound, else 0. A code is +1 or -1 by its bit (zero_one: 1 or 0), and 0 in the border.
struct ToWeight {
  const std::uint64_t* codes;
  bool zero_one;
  float bound;
  float *gw, *gtail;
};

// Both gradients, or one: gy then goes through the caches once.
void gradients(const BatchShape& shape, const GradSource& gy, const float* weight, const float* tail,
               const std::optional<ToInput>& to_input, const std::optional<ToWeight>& to_weight,
               const GradKernels& kernels, Team& team);

}  // namespace ftbnn::training
