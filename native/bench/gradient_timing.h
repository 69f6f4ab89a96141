// How fast the gradients of one convolution are, beside a loop of nothing but multiplications.
#pragma once

#include "training/conv_grad.h"

namespace ftbnn::training {

struct ConvGradTiming {
  double input_seconds, weight_seconds, both_seconds;  // the fastest of the rounds
  double roof_gmacs;  // what all threads could do at most, measured in the same rounds; 0 if unknown
};

ConvGradTiming time_conv_grad(const BatchShape& shape, const GradKernels& kernels, int threads, int rounds);

}  // namespace ftbnn::training
