// The gradient of the weights by multiplication. Codes are [panel][y][phase][column][n][32], where columns one stride
// apart are neighbours, as those of gy are. A product's segments are rows of positions.
#pragma once

#include "training/weight_gradient.h"

namespace ftbnn::training {

class WeightProducts : public WeightGradient {
 public:
  WeightProducts(const BatchShape& shape, const GradGroup& group, const std::uint64_t* codes, bool zero_one, int slice,
                 const GradKernels& kernels, int threads, Scratch& scratch);

  int tasks() const override { return divide_up(group_.out, part_rows_) * panels_ * s.taps(); }
  void run(const Slice& slice, int round, int task) override;

 private:
  void pack_codes(const Slice& slice, int y) override;

  std::size_t column_size() const { return static_cast<std::size_t>(slice_) * GRAD_LANES; }
  std::size_t line_size() const { return columns_ * column_size(); }
  std::size_t panel_size() const { return s.h * phases_ * line_size(); }
  std::size_t slack() const {
    return static_cast<std::size_t>(kernels_.depth_step) * GRAD_LANES;
  }  // a depth rounded up

  int depth_;
  int phases_, columns_;
  Elements right_;
  int part_rows_;
};

}  // namespace ftbnn::training
