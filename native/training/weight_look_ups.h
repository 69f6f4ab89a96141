// The gradient of the weights by look-up (kernels/conv_grad/tables.h). A table is of five neighbouring positions of a
// row of gy, and every tap and panel uses it: so a task takes a few output channels, and makes their tables as it goes
// through the positions. Indices are [panel][y][kx][table][32]: for every column of the kernel, those that it meets.
#pragma once

#include "kernels/conv_grad/tables.h"
#include "training/weight_gradient.h"

namespace ftbnn::training {

class WeightLookUps : public WeightGradient {
 public:
  WeightLookUps(const BatchShape& shape, const GradGroup& group, const std::uint64_t* codes, bool zero_one, int slice,
                const GradKernels& kernels, Scratch& scratch);

  int tasks() const override { return divide_up(group_.out, ROWS); }
  void run(const Slice& slice, int round, int task) override;

 private:
  static constexpr int ROWS = 8;  // output channels of a task: the rows of a tile of three columns

  // Some positions of a row of gy, as many tables.
  struct Stretch {
    int oy, first, length;
  };

  void pack_codes(const Slice& slice, int y) override;
  void add(const std::vector<Stretch>& some, int first, int rows, char* tables, std::int32_t* totals) const;
  // Positions in the border have the index of -1: what they make of the sums of out channel `out`, for every tap, over
  // the rows of a round.
  void find_extra(int round, int out, std::int32_t* of_taps) const;

  std::size_t line_bytes() const { return length_ * TABLE_BYTES; }
  std::size_t panel_bytes() const { return s.h * s.kw * line_bytes(); }
  std::size_t totals_size() const { return static_cast<std::size_t>(ROWS) * GRAD_LANES; }  // of a tap and a panel

  int length_;  // tables of a row of gy
  char* right_;
};

}  // namespace ftbnn::training
