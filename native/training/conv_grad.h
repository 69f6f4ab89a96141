// The two gradients of a binary convolution.
//
// NHWC, dense. Bits: per position ceil(c / 64) words of the whole channel vector, no border: [n][h][w][words].
// Proxies: [out][in of its group][kh][kw]; `tail` holds the uneven last group's, or is null.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "base/team.h"

namespace ftbnn::training {

struct ConvShape {
  int n, h, w, in, out, kh, kw, sh, sw, ph, pw, groups;
  int oh() const { return (h + 2 * ph - kh) / sh + 1; }
  int ow() const { return (w + 2 * pw - kw) / sw + 1; }
};

// gx += the gradient where `inside` has a 1.
void grad_input(const ConvShape& shape, const float* gy, const float* weight, const float* tail,
                const std::uint64_t* inside, float* gx, Isa isa, Team& team);

// gw, gtail = the gradient where |proxy| <= bound, else 0.
void grad_weight(const ConvShape& shape, const float* gy, const std::uint64_t* codes, bool zero_one,
                 const float* weight, const float* tail, float bound, float* gw, float* gtail, Isa isa, Team& team);

}  // namespace ftbnn::training
