// A stem: the convolution of images, its BatchNorm, and a non-linearity or a max-pool or nothing, as one operator.
//
// The convolution's output x is written once, for backward: its moments are taken, and its gradient is made and
// multiplied with the images, row by row in the cache. Of 224 pixels x is the largest map of a network.
#pragma once

#include "training/norm.h"
#include "training/real_conv.h"

namespace ftbnn::training {

struct Stem {
  RealConv conv;
  Norm norm;  // of the convolution's output
};

// As NormTensors, but that forward makes x. Backward takes images and x, and makes the weight's gradient.
struct StemTensors {
  NormTensors norm;
  const float *images, *weight;
  float *x, *weight_grad;
};

void forward(const Stem& stem, const StemTensors& tensors, Team& team);
void backward(const Stem& stem, const StemTensors& tensors, Team& team);

}  // namespace ftbnn::training
