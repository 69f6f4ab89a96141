// The gradient of a binary convolution's input, of one group. A slice is packed row by row, then multiplied by numbered
// tasks, which may run in any order.
//
// Left: gy as [y][column][n][out channel], with as many columns of zeros as the taps reach out. Right: signs of the
// proxies. A product's rows are positions, and its segments the taps.
#pragma once

#include "training/grad_operands.h"

namespace ftbnn::training {

class InputGradient {
 public:
  InputGradient(const BatchShape& shape, const GradGroup& group, const std::uint64_t* inside, float* gx, int slice,
                const GradKernels& kernels, Scratch& scratch);

  int panels() const { return panels_; }
  void pack_weights(int panel) const;
  void pack(const Slice& slice, int y);
  int tasks() const { return divide_up(panels_, BLOCK_PANELS) * s.h * phases(); }
  void run(const Slice& slice, int task);

 private:
  static constexpr int BLOCK_PANELS = 4;  // whose sums wait to go into gx together

  int find_columns();
  void clear_right(int k, int lane, std::size_t at) const;
  int phases() const { return std::min(s.sw, s.w); }  // columns of gx that different taps reach
  std::size_t tap_size() const { return static_cast<std::size_t>(depth_) * GRAD_LANES; }
  std::size_t panel_size() const { return s.taps() * tap_size(); }

  const BatchShape s;
  const GradGroup group_;
  const GradKernels& kernels_;
  const std::uint64_t* inside_;
  float* gx_;
  int depth_, panels_;
  int first_column_ = 0, columns_;
  LeftOperand left_;
  Elements right_;
};

}  // namespace ftbnn::training
