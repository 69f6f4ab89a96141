// The gradient of the input by multiplication.
#pragma once

#include "training/input_gradient.h"

namespace ftbnn::training {

class InputProducts : public InputGradient {
 public:
  InputProducts(const BatchShape& shape, const GradGroup& group, const ToInput& to, int slice,
                const GradKernels& kernels, Scratch& scratch);

  void pack_weights(int panel) const override;
  int tasks() const override { return divide_up(panels_, BLOCK_PANELS) * s.h * phases(); }
  void run(const Slice& slice, int task) override;

 private:
  static constexpr int BLOCK_PANELS = 4;  // whose sums wait to go into gx together

  void clear_right(int k, int lane, std::size_t at) const;

  Elements right_;
};

}  // namespace ftbnn::training
