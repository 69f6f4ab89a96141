// A real convolution of a batch of images, forward and backward: that of a stem.
//
//   out = conv(x, weight)        x: [n][h][w][in], out: [n][oh][ow][out], one group, no bias
//
// Images want no gradient, so there is none of x.
#pragma once

#include <cstddef>
#include <functional>

#include "base/cpu.h"
#include "base/team.h"
#include "training/batch.h"

namespace ftbnn::training {

struct RealConv {
  BatchShape shape;
  bool weight_is_last;  // weights, and their gradient, are [out][kh][kw][in]; else [out][in][kh][kw]
  Features usable;
};

// made(row) is called for every row of all images, numbered through, when it is there and still in the cache.
void forward(const RealConv& conv, const float* x, const float* weight, float* out, Team& team,
             const std::function<void(std::size_t row)>& made);

// grad(row) is that row of the gradient of out; what it points to is read before the thread asks for another.
void backward(const RealConv& conv, const float* x, const std::function<const float*(std::size_t row)>& grad,
              float* weight_grad, Team& team);

}  // namespace ftbnn::training
