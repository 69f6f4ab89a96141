// One image on its way through the network; engine.cc makes these, nobody else needs to know.
//
// Work is cut into pieces that threads take; a piece writes only its own rows and channels, and what it computes does
// not depend on how the work was cut.
#pragma once

#include <algorithm>

#include "base/threads.h"
#include "engine/plan.h"
#include "kernels/table.h"

namespace ftbnn {

constexpr int PIECES_PER_THREAD = 4, BANDS_PER_THREAD = 2;

// The memory of one run under way.
struct Workspace {
  Workspace(const Plan& plan, const Kernels& kernels, int threads);
  AlignedArray<float> arena, gathered, bands;
  AlignedArray<std::uint64_t> codes;
  AlignedArray<std::int32_t> scratch;
  AlignedArray<std::int8_t> pixels, patches;
  AlignedArray<std::int8_t> code_bytes;
};

class ImageRun {
 public:
  // Without a pool the calling thread does all.
  ImageRun(const Model& model, const Plan& plan, const Kernels& kernels, Workspace& memory, ThreadPool* pool)
      : model_(model), plan_(plan), kernels_(kernels), memory_(memory), pool_(pool) {}

  void load(const float* image);
  void load(const std::uint8_t* image);
  void execute(std::size_t index);
  void store(float* output) const;

 private:
  static std::size_t z(int value) { return static_cast<std::size_t>(value); }
  const Shape& shape(int value) const { return model_.values[z(value)]; }
  const RealForm& form(int value) const { return plan_.values[z(value)]; }

  float* at(int value, int y, int x) const {
    const RealForm& f = form(value);
    return memory_.arena.data() + f.offset + z(y + f.top) * f.row_stride() + z(x + f.left) * z(f.channels);
  }

  std::uint64_t* plane_at(const CodePlane& plane, int group, int y, int x) const {
    const CodeGroup& g = plane.groups[z(group)];
    return memory_.codes.data() + g.at + (z(y) * z(plane.columns) + z(x)) * z(g.words);
  }

  template <typename Body>
  void parallel(int count, const Body& body) {
    if (pool_ != nullptr) {
      pool_->run(count, body);
    } else {
      for (int task = 0; task < count; ++task) body(task);
    }
  }

  // Calls body(piece, first row, last row) for at most `most` pieces per thread.
  template <typename Body>
  void for_rows(int rows, int most, const Body& body) {
    const int pieces = std::min(rows, pool_ != nullptr && pool_->threads() > 1 ? most * pool_->threads() : 1);
    parallel(pieces, [&](int k) { body(k, rows * k / pieces, rows * (k + 1) / pieces); });
  }

  // Calls body(group, panel, first row, last row) for pieces of the output.
  template <typename Body>
  void for_pieces(const OperatorPlan& plan, int rows, const Body& body) {
    const int wanted = pool_ != nullptr && pool_->threads() > 1 ? PIECES_PER_THREAD * pool_->threads() : 1;
    const int cuts = std::min(rows, (wanted + plan.panels - 1) / plan.panels);
    parallel(plan.panels * cuts, [&](int task) {
      const int panel = task / cuts, cut = task % cuts;
      const GroupPlan& group = *std::find_if(plan.groups.begin(), plan.groups.end(),
                                             [&](const GroupPlan& g) { return panel < g.first_panel + g.panels; });
      body(group, panel - group.first_panel, rows * cut / cuts, rows * (cut + 1) / cuts);
    });
  }

  // run.cc: convolutions
  Epilogue epilogue(const Operator& op, const OperatorPlan& plan, const GroupPlan& group, int panel, int y) const;
  ConvRow conv_row(const Operator& op, const OperatorPlan& plan, const GroupPlan& group, int panel) const;
  const float* window_at(const Operator& op, const OperatorPlan& plan, const GroupPlan& group, int y) const;
  void convolve(const Operator& op, const OperatorPlan& plan);
  void convolve_and_pool(const Operator& op, const OperatorPlan& plan);
  void convolve_binary(const Operator& op, const OperatorPlan& plan);
  void count_ones(const Operator& op, const OperatorPlan& plan, const CodePlane& plane);
  void gather_groups(const Operator& op, const OperatorPlan& plan);

  // run_stem.cc: the integer stem
  bool is_integer(const Operator& op) const { return has_pixels_ && &op == &model_.operators[z(plan_.stem.index)]; }
  void load_pixels(const std::uint8_t* image);
  void stem_rows(const Operator& op, const OperatorPlan& plan, int piece, int first, int last, float* band,
                 int start) const;

  // run_tiles.cc: binary convolutions as products of bytes
  void convolve_tiles(const Operator& op, const OperatorPlan& plan);

  // run_rows.cc: what lies between them
  void clear_border(int value);
  template <typename Convert>
  void fill_input(const Convert& convert);
  void pack_row(const CodePlane& plane, int y) const;
  void pack_rows(const std::vector<int>& planes, int first, int last) const;
  void pool(const Operator& op, const OperatorPlan& plan);
  void pool_row(const Operator& op, int y, const float* in, int first_row) const;
  void average_to(const Operator& op);
  void concat(const Operator& op, const OperatorPlan& plan);
  void channels(const Operator& op);
  void pointwise(const Operator& op, const OperatorPlan& plan);
  void flatten(const Operator& op);

  const Model& model_;
  const Plan& plan_;
  const Kernels& kernels_;
  Workspace& memory_;
  ThreadPool* pool_;
  bool has_pixels_ = false;  // the image is there for the integer stem alone
};

}  // namespace ftbnn
