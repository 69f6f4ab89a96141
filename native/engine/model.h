// A network as the file describes it: values, operators, and pointers into the file's bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/aligned.h"
#include "kernels/between/between.h"

namespace ftbnn {

// The file is not what docs/format.md says, or asks for more than it may.
class FormatError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What a file may ask for. It is compared before anything is allocated.
struct Limits {
  std::uint64_t max_bytes = std::uint64_t{1} << 30;  // memory of the network and of one image under way
  std::uint64_t max_macs = std::uint64_t{1} << 40;   // operations an image
  // What can be had at all, too: sizes of 64 bits are compared with this before they become those of the machine.
  std::uint64_t bytes() const { return std::min<std::uint64_t>(max_bytes, SIZE_MAX / 2); }
};

struct Shape {
  int c = 0, h = 0, w = 0;
  std::uint64_t elements() const {
    return static_cast<std::uint64_t>(c) * static_cast<std::uint64_t>(h) * static_cast<std::uint64_t>(w);
  }
  bool operator==(const Shape& other) const { return c == other.c && h == other.h && w == other.w; }
};

struct Window {
  int kh = 1, kw = 1, sh = 1, sw = 1, ph = 0, pw = 0;
};

// The epilogue of an operator. Null where the file has none; arrays have one entry per output channel.
struct Tail {
  const float *scale = nullptr, *shift = nullptr, *left = nullptr, *right = nullptr, *after = nullptr;
  const float *first_left = nullptr, *first_right = nullptr;  // before the shortcut; both or none
  int shortcut = -1;                                          // value
  Act act = Act::none;
  Curve curve = Curve::none;  // in place of act
  float low = 0, high = 0;    // of a clamp
};

struct OperatorKind;  // operators/operator.h

struct Operator {
  const OperatorKind* kind = nullptr;
  std::string path;
  std::vector<int> inputs;
  int output = 0;
  Window window;
  int groups = 1;
  bool zero_one = false;      // bconv: codes {0, 1}
  bool whole_window = false;  // avg-pool: divide by the whole window
  bool is_sum = false;        // combine: not a product
  int weight_bits = 0;        // 0: no weights
  const float* weights = nullptr;
  const void* integers = nullptr;  // rounded conv: of 8 or 16 bits, and what they are multiples of
  const float* unit = nullptr;
  const std::uint8_t* bits = nullptr;
  std::uint64_t weight_bytes = 0;     // of any of these
  const float* threshold = nullptr;   // bconv: [in], what a code is compared with; null: 0
  const std::int32_t* map = nullptr;  // channels
  const float* steps = nullptr;       // steps: thresholds [rows][count], rising
  int step_count = 0, step_rows = 0;
  Tail tail;
};

struct Model {
  AlignedArray<std::uint8_t> bytes;  // the whole file; every pointer above points into it
  std::string name;
  std::vector<float> mean, std;
  int resize = 0;
  std::vector<std::string> class_names;
  std::vector<Shape> values;
  std::vector<Operator> operators;

  const Shape& input() const { return values.front(); }
  const Shape& output() const { return values[static_cast<std::size_t>(operators.back().output)]; }
};

}  // namespace ftbnn
