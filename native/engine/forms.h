// The forms of values: what of a value is in memory, and where.
//
// The real form is [row][column][channel] floats, with a zero border as wide as the convolutions that read it in place
// need. A coded form is bits, [row][column][word], again with its border: of what makes the value 32 bits for each
// panel, so that a panel writes its own. Binary convolutions that compare with other thresholds have other forms. A
// value that only binary convolutions read has no real form at all.
//
// A value that a channel map makes (x beside itself, repeated, cut) is not made at all where pools and binary
// convolutions alone read it: they take runs of channels from where the map took them. Where those compare each channel
// with a threshold of its own, the codes of what the map reads lie in as many copies as a channel has thresholds.
#pragma once

#include <utility>
#include <vector>

#include "engine/model.h"
#include "kernels/bconv/bconv.h"

namespace ftbnn {

// Zeros around an image.
struct Border {
  int top = 0, left = 0, rows = 0, columns = 0;  // rows and columns: of all, the image included
  bool operator==(const Border& other) const {
    return top == other.top && left == other.left && rows == other.rows && columns == other.columns;
  }
};

struct RealForm {
  bool is_needed = false;
  std::size_t offset = 0;  // floats from the start of the arena
  Border border;
  int channels = 0;
  std::size_t row() const { return static_cast<std::size_t>(border.columns) * static_cast<std::size_t>(channels); }
  std::uint64_t size() const { return std::uint64_t{row()} * static_cast<std::uint64_t>(border.rows); }
  bool has_border(const Shape& shape) const { return border.rows != shape.h || border.columns != shape.w; }
};

// Neighbouring channels.
struct Run {
  int first, count;
  bool operator==(const Run& other) const { return first == other.first && count == other.count; }
};

struct CodeForm {
  static constexpr int WORD = 64;
  int value = 0;
  const float* threshold = nullptr;  // of the runs' channels in the file, then of all of each copy; null: 0
  bool is_direct = false;            // the operator that makes the value writes it from its registers
  Groups channels{};                 // as they lie: each group from a multiple of 32 bits on
  std::size_t offset = 0;            // words from the start of the code memory
  Border border;
  std::vector<Run> runs;     // that thresholds are of
  std::vector<int> copy_of;  // each run
  int copies = 1;            // at a position one after the other
  std::size_t copy_words() const { return (panel_count(channels) + 1) / 2; }
  std::size_t words() const { return static_cast<std::size_t>(copies) * copy_words(); }
  // Where a run's copy begins.
  int first_bit(std::size_t run) const {
    return copy_of.empty() ? 0 : copy_of[run] * WORD * static_cast<int>(copy_words());
  }
  // Up to the last channel's.
  int bits() const {
    const int panels = (channels.size(0) + PANEL - 1) / PANEL;  // of every group before the last
    return (copies - 1) * WORD * static_cast<int>(copy_words()) + (channels.groups - 1) * panels * PANEL +
           channels.largest();
  }
  std::size_t row() const { return static_cast<std::size_t>(border.columns) * words(); }
  std::uint64_t size() const { return std::uint64_t{row()} * static_cast<std::uint64_t>(border.rows); }
};

// Where a value's channels are: runs of those of another value, or of itself.
struct Source {
  int value = 0;
  std::vector<Run> runs;
};

class Forms {
 public:
  explicit Forms(const Model& model);

  const Source& source(int value) const { return sources_[static_cast<std::size_t>(value)]; }
  // Channel c of `value` is channel map[c] of another. A map in too many pieces is rather carried out.
  void set_map(int value, const std::int32_t* map, int from);

  // Whether two operators that read codes of one source read the same ones.
  static bool are_same_codes(const float* threshold, const std::vector<Run>& runs, const float* other_threshold,
                             const std::vector<Run>& other_runs);

  // Said by steps, from the last to the first.
  void at_step(int step) { step_ = step; }
  void read_real(int value, const Border& border = {});
  void read_source(int value);
  // The number of the form that holds the source's codes, compared with the thresholds of the value's channels.
  int read_codes(int value, const float* threshold, const Border& border);
  void write(int value);
  // The value may be written where another lies, position by position as that is read, if nobody reads that later.
  void may_replace(int value, int other) { replaces_.push_back({value, other}); }
  bool is_read(int value) const;

  const RealForm& real(int value) const { return reals_[static_cast<std::size_t>(value)]; }
  const CodeForm& code(int form) const { return codes_[static_cast<std::size_t>(form)]; }
  std::vector<CodeForm>& codes() { return codes_; }
  // The coded forms of a value that are made of its real form, row by row.
  const std::vector<int>& packed(int value) const { return packed_[static_cast<std::size_t>(value)]; }
  void pack(int form);

  // Takes thresholds along, as copies need them: the file's bytes will go.
  void keep_thresholds();
  std::uint64_t threshold_bytes() const;

  // Gives every form its place: two real forms share memory if one is dead before the other is born, or replaces it.
  void place(int steps);
  std::uint64_t arena_floats() const { return arena_floats_; }
  std::uint64_t code_words() const { return code_words_; }

 private:
  struct Life {
    int born = -1, dies = -1;
  };

  static void share_copies(CodeForm& form, const std::vector<Run>& runs);
  void touch(int value);
  // The value whose place each value takes, its own mostly; lives are joined.
  std::vector<int> join_replaced();
  void widen(Border& border, const Border& wanted) const;

  const Model& model_;
  int step_ = 0;
  std::vector<Source> sources_;
  std::vector<RealForm> reals_;
  std::vector<Life> lives_;
  std::vector<std::pair<int, int>> replaces_;  // from the last step to the first
  std::vector<CodeForm> codes_;
  std::vector<std::vector<int>> packed_;
  std::vector<std::vector<float>> thresholds_;
  std::uint64_t arena_floats_ = 0, code_words_ = 0;
};

}  // namespace ftbnn
