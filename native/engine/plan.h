// What is decided once, when a model is loaded: weights in the order the kernels read them, and where every value
// lives.
//
// A value has up to two forms. The real form is [row][column][channel] floats, with a zero border as wide as the real
// convolutions that read it need. The coded form is one plane of bits for each binary convolution that reads it,
// [group][row][column][word], again with its border. The operator that makes the value writes both in one pass where it
// can; a value that only binary convolutions read has no real form at all.
//
// A value that a channel map makes (x beside itself, repeated, cut) is not made at all where pools and binary
// convolutions alone read it: they take runs of channels from where the map took them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/aligned.h"
#include "engine/limits.h"
#include "engine/model.h"
#include "engine/stem.h"
#include "kernels/bconv_rows.h"

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

// Neighbouring channels.
struct Run {
  int first, count;
  bool operator==(const Run& other) const { return first == other.first && count == other.count; }
};

// Where a value's channels are: runs of those of another value, or of itself.
struct Source {
  int value = 0;
  std::vector<Run> runs;
};

// The codes that one group of a binary convolution reads.
struct CodeGroup {
  std::size_t at;         // words from the start of the code memory
  std::size_t bytes_at;   // with tiles: bytes from the start of the memory that all binary convolutions share
  int words;              // of a position
  std::vector<Run> runs;  // of the plane's value
  bool is_copy;           // an earlier group has the same runs, and so the same place
};

// The coded form of a value for one binary convolution.
struct CodePlane {
  int value = 0, top = 0, left = 0, rows = 0, columns = 0;
  std::vector<CodeGroup> groups;
  bool is_direct = false;  // the convolution that makes the value writes this plane from its registers
};

// One group of a convolution as the kernels see it.
struct GroupPlan {
  int in_first, in_size, out_first, out_size;
  int panels, first_panel;  // its panels among those of the operator
  std::size_t weights_at;   // of its first panel, in the operator's weights
};

// Where a panel's 32 signs go: half a word of each position.
struct CodeTarget {
  int group = -1, half = 0;
};

struct OperatorPlan {
  std::vector<GroupPlan> groups;
  int panels = 0;
  AlignedArray<float> weights;                    // conv, linear: [panel][kh][kw][in][PANEL]
  AlignedArray<std::uint64_t> bits;               // bconv: [panel][kh][kw][word][PANEL]
  AlignedArray<std::uint64_t> merged;             // the same, several taps a word, where groups are narrow
  AlignedArray<float> scale, shift, left, right;  // [panel][PANEL]
  AlignedArray<std::int32_t> base;                // bconv on {-1, +1}: [panel][row class][column class][PANEL]
  std::vector<std::uint8_t> row_class, column_class;
  int row_classes = 0, column_classes = 0;
  int taps_a_word = 1;              // bconv: of `merged`, if more than one
  int plane = -1;                   // bconv: the plane it reads
  bool suits_tiles = false;         // bconv: large enough to fill them, small enough as bytes
  int direct_plane = -1;            // the plane it writes from registers, of its output
  std::vector<CodeTarget> targets;  // of each panel, in the direct plane
  std::vector<int> pack_planes;     // planes of its output that are packed from the real form
  int pool = -1;                    // conv: the pool that it does as well, the only reader of its output
  bool is_done = false;             // another operator does it, or nobody needs it
  int band = 1;                     // with a pool: its rows that are made at a time, from what stays in the cache
  int gather_rows = 0, gather_columns = 0;  // grouped conv: each group's part of the input, with its border
  std::uint64_t macs = 0;
};

struct Plan {
  std::vector<RealForm> values;
  std::vector<Source> sources;  // of each value
  std::vector<CodePlane> planes;
  std::vector<int> input_planes;  // planes of value 0
  std::vector<OperatorPlan> operators;
  AlignedArray<float> pixel_scale, pixel_shift;  // of a row of an 8-bit image: scale * pixel + shift
  StemPlan stem;
  std::size_t arena_floats = 0, code_words = 0, scratch_ints = 0, gather_floats = 0, band_floats = 0;
  std::size_t tile_bytes = 0;  // with tiles: the codes of the largest binary convolution as bytes
};

bool is_convolution(const Operator& op);

Plan make_plan(const Model& model);  // throws FormatError if it would take absurd memory

// What a group of a binary convolution reads, for tile kernels; without its pointers.
CodeImage code_image(const Model& model, const Operator& op, const CodePlane& plane, int group);

// Weights, scales and border constants of a convolution, in the kernels' order (arrange.cc).
void arrange(const Model& model, const Operator& op, OperatorPlan& plan, Room& room);

}  // namespace ftbnn
