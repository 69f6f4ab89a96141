// A convolution over a batch of images.
#pragma once

#include <cstddef>

#include "kernels/window.h"

namespace ftbnn::training {

struct BatchShape : ConvShape {
  int n;
};

inline BatchShape batch_shape(int n, int h, int w, int in, int out, int kh, int kw, int sh, int sw, int ph, int pw,
                              int groups) {
  const int oh = (h + 2 * ph - kh) / sh + 1, ow = (w + 2 * pw - kw) / sw + 1;
  return {{in, out, groups, h, w, oh, ow, kh, kw, sh, sw, ph, pw}, n};
}

}  // namespace ftbnn::training
