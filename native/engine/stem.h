// The convolution that reads the image, for 8-bit images, in integers (kernels/sliced_row.h).
//
// With an image's pixels scaled and shifted, (s x + t), a convolution is
//   sum of w (s x + t)  =  sum of (w s) (x - 128)  +  sum of w (128 s + t)
// over the taps inside the image. w s is a 24-bit integer times a power of two, one for each output channel; the second
// sum is a constant for each class of border. So the products are exact, and what is rounded is the weight, by 2^-24 of
// the channel's largest, and the few sums at the end: as good as float32, at the price of three 8-bit products.
#pragma once

#include "base/aligned.h"
#include "engine/model.h"

namespace ftbnn {

struct StemPlan {
  int index = -1;                     // of the operator; -1: this network has none that can be done so
  int rows = 0, columns = 0;          // of the image with its border
  int run = 0, step = 0, depth = 0;   // as in the kernels
  AlignedArray<std::int8_t> weights;  // [panel][SLICES][depth / 64][2][16][16][4]
  AlignedArray<float> scale;          // [panel][PANEL]
  AlignedArray<float> offset;         // [panel][row class][column class][PANEL]
  std::vector<std::uint8_t> row_class, column_class;
  int row_classes = 0, column_classes = 0;
  std::size_t pixel_bytes = 0, patch_bytes = 0;  // of a workspace, and of a piece of work
};

// `scale` and `shift` are those of the pixels of one position.
StemPlan make_stem(const Model& model, const float* scale, const float* shift);

}  // namespace ftbnn
