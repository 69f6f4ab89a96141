// A real convolution of a batch of images, forward and backward: that of a stem.
//
//   out = conv(x, weight)        x: [n][h][w][in], out: [n][oh][ow][out], one group, no bias
//
// Images want no gradient, so there is none of x.
#pragma once

#include "base/cpu.h"
#include "base/team.h"
#include "training/batch.h"

namespace ftbnn::training {

struct RealConv {
  BatchShape shape;
  bool weight_is_last;  // weights, and their gradient, are [out][kh][kw][in]; else [out][in][kh][kw]
  Features usable;
};

void forward(const RealConv& conv, const float* x, const float* weight, float* out, Team& team);
void backward(const RealConv& conv, const float* x, const float* grad, float* weight_grad, Team& team);

}  // namespace ftbnn::training
