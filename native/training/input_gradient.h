// The gradient of a binary convolution's input, of one group or more. A slice is packed row by row, then multiplied by
// numbered tasks, which may run in any order.
//
// Left: gy as [y][column][n][out channel], with as many columns of zeros as the taps reach out. Right: signs of the
// proxies. Rows are positions, and taps what is summed over. How it is multiplied is another's: input_products.h,
// input_look_ups.h.
#pragma once

#include <memory>

#include "training/conv_grad.h"
#include "training/grad_operands.h"

namespace ftbnn::training {

// A tap that reaches a coordinate of the input; its source is shift + coordinate / stride.
struct GradTap {
  int k, shift;
};

class InputGradient {
 public:
  virtual ~InputGradient() = default;

  int panels() const { return panels_; }
  virtual void pack_weights(int panel) const = 0;
  void pack(const Slice& slice, int y);
  virtual int tasks() const = 0;
  virtual void run(const Slice& slice, int task) = 0;

 protected:
  // Depths are multiples of `depth_step`.
  InputGradient(const BatchShape& shape, const GradGroup& group, const ToInput& to, int slice,
                const GradKernels& kernels, int depth_step, Scratch& scratch);

  int phases() const { return std::min(s.sw, s.w); }  // columns of gx that different taps reach
  std::vector<GradTap> row_taps(int y) const;         // whose source is a row of gy
  std::vector<GradTap> column_taps(int phase) const;
  int columns_of(int phase) const { return (s.w - 1 - phase) / s.sw + 1; }  // of gx
  // Row y of so many images, where no tap reaches it.
  void leave(int image, int ns, int y, int phase) const;
  // For sums of positions of row y, from column x of a phase on; sums, their size and xs are the caller's.
  GradScatter scatter_from(int image, int ns, int y, int phase, int x, int panel, int panels) const;

  const BatchShape s;
  const GradGroup group_;
  const GradKernels& kernels_;
  const ToInput to_;
  int depth_, panels_;
  int first_column_ = 0, columns_;
  LeftOperand left_;

 private:
  int find_columns();
};

// Those of all groups.
std::vector<std::unique_ptr<InputGradient>> input_gradients(const BatchShape& shape, const std::vector<GradPart>& parts,
                                                            const ToInput& to, int slice, const GradKernels& kernels,
                                                            int threads, Scratch& scratch);

}  // namespace ftbnn::training
