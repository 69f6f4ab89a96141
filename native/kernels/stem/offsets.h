// What an 8-bit image's convolution adds that does not depend on its pixels: padding with zeros *after* pixels are
// scaled and shifted is one constant for each output channel and class of border.
#pragma once

#include "base/aligned.h"
#include "kernels/bconv/border.h"
#include "kernels/stem/stem.h"

namespace ftbnn {

class StemOffsets {
 public:
  // zero: the pixel that a kernel's integer sums count as 0.
  StemOffsets(const StemShape& shape, int zero);

  static std::size_t most(const ConvShape& shape);  // floats that it will take
  static bool fits(const ConvShape& shape);

  // [column class][PANEL] of output row `y`, and the class of each output column.
  const float* row(int panel, int y) const;
  const std::uint8_t* columns() const { return columns_.of.data(); }

 private:
  std::size_t classes() const { return rows_.count() * columns_.count(); }

  const BorderClasses rows_, columns_;
  AlignedArray<float> offset_;  // [panel][row class][column class][PANEL]
};

}  // namespace ftbnn
