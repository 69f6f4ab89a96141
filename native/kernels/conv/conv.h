// Real convolution: the contract of its kernels.
//
//   acc[y][x][o] = sum over ky, kx, c of  in[y * sh + ky - ph][x * sw + kx - pw][c] * w[o][c][ky][kx]
//
// with zeros outside the image; then the epilogue. As in bconv.h a kernel prepares its operands itself: `make` lays out
// the weights, arrange() the image, run() multiplies. A matrix is a convolution of one position.
#pragma once

#include <memory>

#include "base/table.h"
#include "kernels/window.h"

namespace ftbnn {

// One image: position (0, 0), and the floats from one row to the next; positions lie side by side.
struct RealImage {
  const float* at;
  std::size_t row;
  bool has_border;  // zeros all around, as far as windows reach: it may be read in place
};

// Output rows [first, last) of one panel; where there is one group, of several.
struct ConvCall {
  RealImage image;
  const void* arranged;
  int panel, panels, first, last;
  void* scratch;  // the caller's own, on a cache line
  Epilogue end;   // of row `first` of the first panel; those of the next follow (of_panel)
};

class Conv {
 public:
  Conv() = default;
  virtual ~Conv() = default;
  Conv(const Conv&) = delete;
  Conv& operator=(const Conv&) = delete;

  virtual std::size_t arranged_bytes() const { return 0; }
  virtual std::size_t scratch_bytes() const { return 0; }
  virtual bool arranges() const { return false; }
  // All that output rows [first, last) read, and maybe more.
  virtual void arrange(int /*first*/, int /*last*/, const RealImage&, void* /*arranged*/) const {}
  virtual void run(const ConvCall& call) const = 0;
};

struct ConvKernels {
  int rows;  // of the output that are made at a time, counted from the first
  bool (*suits)(const ConvShape& shape);
  Sizes (*sizes)(const ConvShape& shape);  // at most
  // Weights are [out][in of a group][kh][kw]. An image of one group may come with a border.
  std::unique_ptr<Conv> (*make)(const ConvShape& shape, const float* weights);
};

const Table<ConvKernels>& conv_table();

// Whether the image is read where it lies, border included: of groups each one's part is gathered.
inline bool reads_in_place(const ConvShape& shape) { return shape.groups == 1; }

}  // namespace ftbnn
