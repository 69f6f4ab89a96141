// The gradient of a binary convolution's weights, of one group. A slice is packed row by row, then multiplied by
// numbered tasks, in one round or more; what is in one round may run in any order.
//
// Left: gy as [y][out channel][column][n]. Right: codes as [panel][y][phase][column][n][32], where columns one stride
// apart are neighbours, as those of gy are. A product's rows are out channels, and its segments rows of positions.
#pragma once

#include "training/grad_operands.h"

namespace ftbnn::training {

class WeightGradient {
 public:
  WeightGradient(const BatchShape& shape, const GradGroup& group, const std::uint64_t* codes, bool zero_one, int slice,
                 const GradKernels& kernels, int threads, Scratch& scratch);

  void pack(const Slice& slice, int y) {
    if (y < s.oh) pack_gy(slice, y);
    if (y < s.h) pack_codes(slice, y);
  }
  int rounds() const { return rounds_; }
  int tasks() const { return divide_up(group_.out, part_rows_) * panels_ * s.taps(); }
  void run(const Slice& slice, int round, int task);
  // Sums to gradients, for sixteen outputs of a panel: few runs of memory are read side by side, and those of the next
  // panel are asked for.
  int finishes() const { return panels_ * divide_up(group_.out, GRAD_ROWS); }
  void finish(float bound, int task) const;

 private:
  void pack_gy(const Slice& slice, int y);
  void pack_codes(const Slice& slice, int y);

  int taps() const { return s.taps(); }
  std::size_t tap_size() const { return round_up(group_.out, GRAD_ROWS) * GRAD_LANES; }
  std::size_t column_size() const { return static_cast<std::size_t>(slice_) * GRAD_LANES; }
  std::size_t line_size() const { return columns_ * column_size(); }
  std::size_t panel_size() const { return s.h * phases_ * line_size(); }
  std::size_t slack() const {
    return static_cast<std::size_t>(kernels_.depth_step) * GRAD_LANES;
  }  // a depth rounded up

  const BatchShape s;
  const GradGroup group_;
  const GradKernels& kernels_;
  const std::uint64_t* codes_;
  bool zero_one_;
  int slice_, panels_, depth_;
  int phases_, columns_;
  LeftOperand left_;
  Elements right_;
  float* sums_;  // [panel][tap][out][32]
  int rounds_, band_, part_rows_;
};

}  // namespace ftbnn::training
