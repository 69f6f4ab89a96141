// Operands of the products that gradients are made of (kernels/conv_grad/conv_grad.h), and what they are rounded by.
//
// Images go through in slices, and within a slice the image is the fastest index: a position (y, x) is a run of n
// neighbours. So a row of positions is one run of x * n, whatever the size of the image; a tap shifts it by whole
// positions; and neighbours of the depth that share a dword never fall on different sides of a border.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/scratch.h"
#include "kernels/conv_grad/conv_grad.h"
#include "training/batch.h"

namespace ftbnn::training {

// A core's second-level cache (1 or 2 MiB) should hold the operands of a run of tasks.
constexpr int SLICE_POSITIONS = 4096;  // the codes of a panel are 256 KiB then, or 512 as floats
constexpr int BLOCK_ROWS = 224;        // positions whose sums wait to go into gx: a multiple of the tiles, 14 and 32
constexpr int TASKS_PER_THREAD = 4;

template <typename T>
T divide_up(T a, T b) {
  return (a + b - 1) / b;
}

// Elements of any kind, addressed by number.
class Elements {
 public:
  Elements(const GradKernels& kernels, std::size_t count, Scratch& scratch)
      : bytes_(sizeof(float) / kernels.packed), data_(scratch.take<char>(count * bytes_)) {}
  void* at(std::size_t index) const { return data_ + index * bytes_; }
  void fill(std::size_t index, std::size_t count, char byte) const {
    std::fill_n(data_ + index * bytes_, count * bytes_, byte);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  char* data_;
};

// A left operand.
class LeftOperand {
 public:
  LeftOperand(const GradKernels& kernels, std::size_t rows, int depth, Scratch& scratch);

  GradRows rows(std::size_t row, const float* rates) const {
    return {elements_.at(row * stride_), stride_, depth_, rates};
  }
  void zero(std::size_t row, std::size_t count) const { elements_.fill(row * stride_, count * stride_, zero_); }
  const void* at(std::size_t row, int element = 0) const { return elements_.at(row * stride_ + element); }
  std::size_t stride() const { return stride_; }
  std::size_t row_bytes() const { return stride_ * elements_.bytes(); }

 private:
  int depth_;
  std::size_t stride_;
  Elements elements_;
  char zero_;  // every byte of it
};

// One group of a convolution, with its weights and their gradient.
struct GradPart {
  int first_in, in, first_out, out;
  const float* weight;
  float* grad;
};

// Neighbouring groups that are multiplied as one, with zeros between them: few channels of one group alone would leave
// most lanes and most of each pass empty.
struct GradGroup {
  int first_in, in, first_out, out;
  std::vector<GradPart> parts;

  void join(const GradPart& next);
  const GradPart& part_of(int out_channel) const;  // counted from first_out
};

std::vector<GradPart> grad_parts(const BatchShape& shape, const float* weight, const float* tail, float* gw,
                                 float* gtail);

// Such that no group but a single part has more than so many channels.
std::vector<GradGroup> grad_groups(const std::vector<GradPart>& parts, int most);

// Whether groups like this one are multiplied by look-up: where at least so many lanes, of all taps, use a table.
bool are_looked_up(const BatchShape& shape, const GradPart& part, const GradKernels& kernels, int least);

// What bytes are rounded by, found slice by slice: the steps in a unit and the size of a step, for each image (a row of
// the input gradient's left operand is one) and for each channel (a row of the weight gradient's).
class Rounding {
 public:
  explicit Rounding(const BatchShape& shape) : channels_of_gy_(shape.out) {}

  // From the bits of the largest magnitudes, [images][channels].
  void set(const std::uint32_t* largest, int images);

  const float* image_rates() const { return images_.rates.data(); }
  const float* image_sizes() const { return images_.sizes.data(); }  // [BLOCK_ROWS], of all images again and again
  const float* channel_rates(int first) const { return channels_.rates.data() + first; }
  const float* channel_sizes(int first) const { return channels_.sizes.data() + first; }

 private:
  struct OfRows {
    void set(std::size_t rows, const std::vector<std::uint32_t>& magnitudes);
    std::vector<float> rates, sizes;
  };

  int channels_of_gy_;
  OfRows images_, channels_;
};

struct Slice {
  int first, images;
  const float* gy;  // of its first image
  const Rounding& rounding;
};

}  // namespace ftbnn::training
