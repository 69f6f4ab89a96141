// The gradient of the input by multiplication. All groups are multiplied together, so that a position's gradient is
// written in one piece: lanes meet the outputs of the groups whose channels they are.
#pragma once

#include "training/input_gradient.h"

namespace ftbnn::training {

class InputProducts : public InputGradient {
 public:
  InputProducts(const BatchShape& shape, const GradGroup& group, const ToInput& to, int slice,
                const GradKernels& kernels, Scratch& scratch);

  void pack_weights(int panel) const override;
  int tasks() const override { return divide_up(panels_, BLOCK_PANELS) * s.h; }
  void run(const Slice& slice, int task) override;

 private:
  static constexpr int BLOCK_PANELS = 4;  // whose sums wait to go into gx together

  // Neighbouring lanes of a panel, and the outputs that they are multiplied with.
  struct Span {
    int lane, lanes;
    int first_out, outs;
  };
  // Signs of the proxies, [tap][out][32], for the outputs of `all`; and what of it is multiplied.
  struct Panel {
    Span all;
    std::vector<Span> spans;
    std::size_t at;
    std::size_t tap_size() const { return static_cast<std::size_t>(all.outs) * GRAD_LANES; }
  };

  Span span_of(int panel, int lane, int lanes) const;
  std::vector<Panel> find_panels() const;
  std::size_t size() const { return list_.back().at + s.taps() * list_.back().tap_size(); }
  void clear_others(int panel) const;
  void run_phase(const Slice& slice, int y, int phase, int panel, float* sums) const;

  std::vector<Panel> list_;
  Elements right_;
};

}  // namespace ftbnn::training
