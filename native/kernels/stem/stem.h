// The convolution that reads an 8-bit image, in integers: the contract of its kernels.
//
// With an image's pixels scaled and shifted, (s x + t), a convolution is
//   sum of w (s x + t)  =  sum of (w s) (x - 128)  +  sum of w (128 s + t)
// over the taps inside the image. The first sum is one of integers where w s is an integer times a unit, the second a
// constant for each class of border. Integers that the network itself has are multiplied as they are; of other weights
// a kernel says how it makes integers. As float32 must be what it gives.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/table.h"
#include "kernels/window.h"

namespace ftbnn {

// Weights that the network has as integers, times the unit of their output channel.
struct Rounded {
  int bits = 0;                    // 8 or 16
  const void* integers = nullptr;  // null: the network has no such
  const float* unit = nullptr;
};

// A convolution of one group with its weights [out][in][kh][kw], and per channel what follows: y = scale * acc + shift.
// Only `make` reads the numbers.
struct StemShape : ConvShape {
  const float* weights;
  Rounded rounded;                         // the same weights
  const float *scale, *shift;              // of an output channel; null: 1 and 0
  const float *pixel_scale, *pixel_shift;  // of an input channel
};

// All panels of output rows [first, last).
struct StemCall {
  const void* pixels;
  int first, last;
  void* scratch;
  Epilogue end;  // of row `first` and panel 0; those of the next panels follow. Its scale and shift are not read
};

class Stem {
 public:
  Stem() = default;
  virtual ~Stem() = default;
  Stem(const Stem&) = delete;
  Stem& operator=(const Stem&) = delete;

  virtual std::size_t pixel_bytes() const = 0;    // an image's, zero at first
  virtual std::size_t scratch_bytes() const = 0;  // of a thread
  virtual void load(int row, const std::uint8_t* image, void* pixels) const = 0;
  virtual void run(const StemCall& call) const = 0;
};

struct StemKernels {
  bool (*suits)(const StemShape& shape);
  Sizes (*sizes)(const StemShape& shape);  // at most; what is arranged are the pixels
  // Null if the weights are too large or too small.
  std::unique_ptr<Stem> (*make)(const StemShape& shape);
};

// Where no row suits, and where one makes nothing, the convolution is done in floats.
const Table<StemKernels>& stem_table();

}  // namespace ftbnn
