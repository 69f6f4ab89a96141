// An epilogue as tests give it: numbers by output channels, results and shortcut as [row][column][channel]. `copies`
// behind the first have their thresholds behind those of the first, and their codes behind its codes.
#pragma once

#include <vector>

#include "base/aligned.h"
#include "kernels/groups.h"
#include "tests/bindings/arrays.h"

namespace ftbnn {

class Ends {
 public:
  Ends(const nanobind::dict& given, const Groups& out, int rows, int width);

  Epilogue at(int panel) const;
  const std::vector<Panel>& panels() const { return panels_; }

 private:
  AlignedArray<float> by_panels(const char* name, float absent, bool needed, int times = 1) const;

  const nanobind::dict& given_;
  std::vector<Panel> panels_;
  AlignedArray<float> scale_, shift_, left_, right_, after_, first_left_, first_right_, threshold_;
  Epilogue base_{};
};

Act act_named(const std::string& name);

}  // namespace ftbnn
