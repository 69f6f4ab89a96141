// The gradient of a binary convolution's weights, of one group. A slice is packed row by row, then multiplied by
// numbered tasks, in one round or more; what is in one round may run in any order.
//
// Left: gy as [y][out channel][column][n]. Right: codes. Rows are out channels, and rows of positions what is summed
// over. How it is multiplied is another's: weight_products.h, weight_look_ups.h.
#pragma once

#include <memory>

#include "training/grad_operands.h"

namespace ftbnn::training {

class WeightGradient {
 public:
  virtual ~WeightGradient() = default;

  void pack(const Slice& slice, int y) {
    if (y < s.oh) pack_gy(slice, y);
    if (y < s.h) pack_codes(slice, y);
  }
  int rounds() const { return rounds_; }
  virtual int tasks() const = 0;
  virtual void run(const Slice& slice, int round, int task) = 0;
  // Sums to gradients, for sixteen outputs of a panel: few runs of memory are read side by side, and those of the next
  // panel are asked for.
  int finishes() const { return panels_ * divide_up(group_.out, GRAD_ROWS); }
  void finish(float bound, int task) const;

 protected:
  // A row of gy takes `depth` elements.
  WeightGradient(const BatchShape& shape, const GradGroup& group, const std::uint64_t* codes, bool zero_one, int slice,
                 const GradKernels& kernels, int depth, Scratch& scratch);

  virtual void pack_codes(const Slice& slice, int y) = 0;
  int taps() const { return s.taps(); }
  std::size_t tap_size() const { return round_up(group_.out, GRAD_ROWS) * GRAD_LANES; }
  float* sums(int panel, int tap, int out) const {
    return sums_ + (panel * taps() + tap) * tap_size() + static_cast<std::size_t>(out) * GRAD_LANES;
  }
  int first_row(int round) const { return round * band_; }
  int last_row(int round) const { return std::min(s.oh, (round + 1) * band_); }
  // The codes of position (y, x) of every image, null in the border.
  void find_codes(const Slice& slice, int y, int x, const std::uint64_t** to) const;

  const BatchShape s;
  const GradGroup group_;
  const GradKernels& kernels_;
  const std::uint64_t* codes_;
  bool zero_one_;
  int slice_, panels_;
  LeftOperand left_;

 private:
  void pack_gy(const Slice& slice, int y);

  float* sums_;  // [panel][tap][out][32]

 protected:
  int rounds_, band_;  // of so many rows of positions
};

// Those of all groups.
std::vector<std::unique_ptr<WeightGradient>> weight_gradients(const BatchShape& shape,
                                                              const std::vector<GradPart>& parts,
                                                              const std::uint64_t* codes, bool zero_one, int slice,
                                                              const GradKernels& kernels, int threads,
                                                              Scratch& scratch);

}  // namespace ftbnn::training
