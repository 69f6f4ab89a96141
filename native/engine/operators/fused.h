// What operators that end in an epilogue have in common: its numbers by panels, and where its results go.
#pragma once

#include "engine/image.h"
#include "engine/operators/operator.h"

namespace ftbnn {

class FusedStep : public Step {
 public:
  // With output channels in panels of these groups.
  FusedStep(const Operator& op, const Planning& planning, const Groups& panels);

  bool declare(Forms& forms) override;
  bool direct_codes(CodeForm& form, int number) override;
  Sizes sizes() const override;
  void prepare(const Forms& forms) override;

 protected:
  // Of row `y` of a panel.
  Epilogue epilogue(const Image& image, int panel, int y) const;
  // What is not done in registers: a curve, what is added behind it, and coded forms that are packed.
  void finish(Image& image) const;

  const Panel& panel(int number) const { return panels_[z(number)]; }
  int panels() const { return static_cast<int>(panels_.size()); }
  bool has_curve() const { return op_.tail.curve != Curve::none; }
  // Of the codes that it writes.
  int copies() const { return copies_; }

 private:
  enum Numbers { SCALE, SHIFT, LEFT, RIGHT, AFTER, FIRST_LEFT, FIRST_RIGHT, THRESHOLD, COUNT };
  AlignedArray<float> by_panels(const float* from, float absent, int copies = 1) const;

  const Groups groups_;
  const std::vector<Panel> panels_;
  AlignedArray<float> numbers_[COUNT];  // [panel][PANEL]; from AFTER on none if there are none
  int direct_ = -1;                     // the coded form that it writes ...
  int copies_ = 1;                      // ... and its copies: THRESHOLD is [copy][panel][PANEL]
};

}  // namespace ftbnn
