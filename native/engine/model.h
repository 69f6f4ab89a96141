// A network as the file describes it: values, operators, and pointers into the file's bytes.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/aligned.h"
#include "kernels/conv_row.h"

namespace ftbnn {

// The file is not what docs/format.md says.
class FormatError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Kind : std::uint8_t {
  conv = 1,
  bconv,
  linear,
  max_pool,
  avg_pool,
  average_to,
  concat,
  channels,
  pointwise,
  flatten,
};

const char* kind_name(Kind kind);

struct Shape {
  int c = 0, h = 0, w = 0;
  std::size_t elements() const { return static_cast<std::size_t>(c) * h * w; }
  bool operator==(const Shape& other) const { return c == other.c && h == other.h && w == other.w; }
};

struct Window {
  int kh = 1, kw = 1, sh = 1, sw = 1, ph = 0, pw = 0;
};

// Null where the file has none; arrays have one entry per output channel.
struct Tail {
  const float *scale = nullptr, *shift = nullptr, *left = nullptr, *right = nullptr;
  int shortcut = -1;  // value
  Act act = Act::none;
};

struct Operator {
  Kind kind = Kind::pointwise;
  std::string path;
  std::vector<int> inputs;
  int output = 0;
  Window window;
  int groups = 1;
  bool zero_one = false;      // bconv: codes {0, 1}
  bool whole_window = false;  // avg-pool: divide by the whole window
  const float* weights = nullptr;
  const std::uint8_t* bits = nullptr;
  std::size_t bits_bytes = 0;
  const std::int32_t* map = nullptr;
  Tail tail;
};

// Channels of group g: floor(c / groups), the last group takes the remainder too.
struct Groups {
  int channels, groups;
  int first(int g) const { return g * (channels / groups); }
  int size(int g) const { return g + 1 < groups ? channels / groups : channels - first(g); }
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
  const Shape& output() const { return values[operators.back().output]; }
};

}  // namespace ftbnn
