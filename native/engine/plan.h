// What is decided once, when a model is loaded: weights in the order the kernels read them, and where every value
// lives.
//
// A value has up to two forms. The real form is [row][column][channel] floats, with a zero border as wide as the real
// convolutions that read it need. The coded form is one plane of bits for each binary convolution that reads it,
// [group][row][column][word], again with its border. The operator that makes the value writes both in one pass where it
// can; a value that only binary convolutions read has no real form at all.
#pragma once

#include <cstdint>
#include <vector>

#include "base/aligned.h"
#include "engine/model.h"

namespace ftbnn {

// The real form of a value, somewhere in the arena.
struct RealForm {
  bool is_needed = false;
  std::size_t offset = 0;  // floats from the start of the arena
  int top = 0, left = 0, rows = 0, columns = 0, channels = 0;
  std::size_t row_stride() const { return static_cast<std::size_t>(columns) * channels; }
  std::size_t size() const { return row_stride() * rows; }
  bool has_border(const Shape& shape) const { return rows != shape.h || columns != shape.w; }
};

// The coded form of a value for one binary convolution.
struct CodePlane {
  int value = 0, top = 0, left = 0, rows = 0, columns = 0;
  std::vector<std::size_t> group_at;  // words from the start of the code memory to each group's plane
  std::vector<int> words;             // words per position, for each group
  bool is_direct = false;             // the operator that makes the value writes this plane itself
};

// One group of a convolution as the kernels see it.
struct GroupPlan {
  int in_first, in_size, out_first, out_size;
  int panels, first_panel;  // its panels among those of the operator
  std::size_t weights_at;   // of its first panel, in the operator's weights
};

struct OperatorPlan {
  std::vector<GroupPlan> groups;
  AlignedArray<float> weights;                    // conv, linear: [panel][kh][kw][in][PANEL]
  AlignedArray<std::uint64_t> bits;               // bconv: [panel][kh][kw][word][PANEL]
  AlignedArray<float> scale, shift, left, right;  // [panel][PANEL]
  AlignedArray<std::int32_t> base;                // bconv on {-1, +1}: [panel][row class][column class][PANEL]
  std::vector<std::uint8_t> row_class, column_class;
  int row_classes = 0, column_classes = 0;
  int plane = -1;                // bconv: the plane it reads
  int direct_plane = -1;         // the plane it writes, of its output
  std::vector<int> pack_planes;  // planes of its output that are packed afterwards
  std::uint64_t macs = 0;
};

struct Plan {
  std::vector<RealForm> values;
  std::vector<CodePlane> planes;
  std::vector<int> input_planes;  // planes of value 0
  std::vector<OperatorPlan> operators;
  std::size_t arena_floats = 0, code_words = 0, scratch_ints = 0;
};

Plan make_plan(const Model& model);  // throws FormatError if it would take absurd memory

}  // namespace ftbnn
