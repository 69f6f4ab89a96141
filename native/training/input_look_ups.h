// The gradient of the input by look-up (kernels/conv_grad/tables.h). A table is of five output channels at a position,
// and every tap and panel uses it: so a task takes some rows of some images, and keeps the tables of the rows of gy
// that its row of the input meets, in a ring.
#pragma once

#include "kernels/conv_grad/tables.h"
#include "training/input_gradient.h"

namespace ftbnn::training {

class InputLookUps : public InputGradient {
 public:
  InputLookUps(const BatchShape& shape, const GradGroup& group, const ToInput& to, int slice,
               const GradKernels& kernels, int threads, Scratch& scratch);

  void pack_weights(int panel) const override;
  int tasks() const override { return image_tasks_ * row_tasks_; }
  void run(const Slice& slice, int task) override;

 private:
  int length() const { return depth_ / TABLE_TERMS; }  // tables of a position
  std::size_t tap_bytes() const { return length() * TABLE_BYTES; }
  std::size_t panel_bytes() const { return s.taps() * tap_bytes(); }
  // Tables of a row of gy are [table][column][image].
  std::size_t table_step(int images) const;

  struct Band {
    int image, images, ns;  // of a slice of ns
    char* ring;             // tables of the rows of gy, at their number modulo those in the ring
  };
  void build(const Band& band, int row) const;
  void run_row(const Slice& slice, const Band& band, int y) const;

  int ring_rows_, images_, image_tasks_, rows_, row_tasks_;
  char* right_;  // [panel][tap][table][32]
};

}  // namespace ftbnn::training
