// Codes as bytes, weights as [panel][step][PANEL] bits that become bytes when a panel is multiplied.
#include "kernels/bconv/tiles.h"

#include <algorithm>

#include "base/aligned.h"
#include "kernels/bconv/layouts.h"
#include "kernels/bconv/tiles_layout.h"

namespace ftbnn {

namespace {

constexpr std::size_t LEAST_POSITIONS = 16;               // fewer leave rows of a tile empty
constexpr std::size_t MOST_BYTES = std::size_t{1} << 27;  // what is larger as bytes stays bits
constexpr std::size_t ADVANTAGE = 3;                      // products a cycle, of tiles to popcount

std::size_t z(int value) { return static_cast<std::size_t>(value); }

// All groups but the last are alike.
struct Kinds {
  explicit Kinds(const BConvShape& s) : first(s, s.ins().size(0)), last(s, s.ins().largest()), groups(s.groups) {}
  const ByteLayout& of(int group) const { return group + 1 < groups ? first : last; }
  // The sum over all groups of what body(group) gives.
  template <typename Body>
  std::size_t sum(const Body& body) const {
    return z(groups - 1) * body(0) + body(groups - 1);
  }
  std::size_t bytes() const {
    return sum([&](int g) { return of(g).bytes(); });
  }
  std::size_t most_steps() const { return std::max(first.step_count(), last.step_count()); }

  ByteLayout first, last;
  int groups;
};

// Weights of a panel and sums, or the codes of a row on their way to bytes.
std::size_t tiles_scratch(const BConvShape& s, const Kinds& kinds) {
  const std::size_t gathered = z(s.w) * words_of(s.ins().largest()) * sizeof(std::uint64_t);
  return std::max(tile_scratch_bytes(kinds.most_steps()), gathered);
}

class TilesBConv final : public BConv {
 public:
  TilesBConv(const BConvShape& shape, const CodeLayout& layout, WeightWords weights, const TileKernels& kernels)
      : s_(shape), layout_(layout), kernels_(kernels), kinds_(shape) {
    steps_[0] = kinds_.first.steps();
    steps_[1] = kinds_.last.steps();
    for (int g = 0; g < s_.groups; ++g) {
      const int other = same_group(layout_, g);
      groups_.push_back({other >= 0 ? groups_[z(other)].bytes_at : arranged_, other >= 0});
      if (other < 0) arranged_ += kinds_.of(g).bytes();
    }
    std::size_t size = 0;
    for (const Panel& panel : panels_of(s_.outs())) {
      panels_.push_back({panel, size});
      size += kinds_.of(panel.group).step_count() * PANEL;
    }
    weights_ = AlignedArray<std::uint64_t>(size);
    for (const PanelPlan& plan : panels_) weights = lay_out(plan, weights);
  }

  std::size_t arranged_bytes() const override { return arranged_; }
  std::size_t scratch_bytes() const override { return tiles_scratch(s_, kinds_); }
  bool arranges() const override { return true; }

  void arrange(int first, int last, const Codes& codes, void* arranged, void* scratch) const override {
    const int begin = first * s_.sh, end = s_.end_row(last);
    const int below = std::max(kinds_.first.stack(), kinds_.last.stack()) - 1;  // rows that stacks reach down
    for (int row = begin; row < std::min(end + below, s_.rows()); ++row) {
      for (int g = 0; g < s_.groups; ++g) {
        if (!groups_[z(g)].is_copy && row < end + kinds_.of(g).stack() - 1) {
          expand_row(g, row, begin, end, codes, arranged, scratch);
        }
      }
    }
  }

  std::size_t best_outputs() const override { return std::size_t{1} << 17; }  // weights become bytes in every call

  void run(const BConvCall& call) const override {
    const PanelPlan& plan = panels_[z(call.panel)];
    const std::vector<TileStep>& steps = steps_[plan.panel.group + 1 < s_.groups ? 0 : 1];
    TileRows rows{};
    rows.steps = steps.data();
    rows.step_count = steps.size();
    rows.weights = weights_.data() + plan.weights_at;
    rows.columns = kinds_.last.columns();
    rows.width = s_.ow;
    rows.first = call.first;
    rows.last = call.last;
    rows.channels = plan.panel.channels;
    rows.scratch = call.scratch;
    rows.end = call.end;
    const auto* bytes = static_cast<const std::int8_t*>(call.arranged) + groups_[z(plan.panel.group)].bytes_at;
    for (int image = 0; image < call.images; ++image) {
      rows.bytes = bytes + z(image) * call.arranged_image;
      rows.has_bytes = image > 0;
      kernels_.rows(rows);
      if (rows.end.out != nullptr) rows.end.out += call.out_image;
    }
  }

 private:
  struct GroupPlan {
    std::size_t bytes_at;
    bool is_copy;  // an earlier group has the same bits, and so the same place
  };
  struct PanelPlan {
    Panel panel;
    std::size_t weights_at;
  };

  // A panel's weights, [channel][tap][word], as its steps have them; gives where the next panel's are.
  WeightWords lay_out(const PanelPlan& plan, WeightWords from) {
    const ByteLayout& layout = kinds_.of(plan.panel.group);
    const std::size_t words = words_of(layout.channels()), size = z(s_.taps()) * words;
    for (std::size_t k = 0; k < size; ++k) {
      const std::size_t bit = layout.weight_bit(static_cast<int>(k / words), static_cast<int>(k % words));
      const std::size_t shift = bit % 64;
      std::uint64_t* to = weights_.data() + plan.weights_at + bit / 64 * PANEL;
      for (int o = 0; o < plan.panel.channels; ++o, ++to) {
        const std::uint64_t bits = from[z(o) * size + k];
        *to |= bits << shift;
        if (shift > 0 && bits >> (64 - shift) != 0) to[PANEL] |= bits >> (64 - shift);
      }
    }
    return from + z(plan.panel.channels) * size;
  }

  // A row as lines if it is one of [begin, end), and as the rest of stacks that start there.
  void expand_row(int g, int row, int begin, int end, const Codes& codes, void* arranged, void* scratch) const {
    const ByteLayout& layout = kinds_.of(g);
    auto* bytes = static_cast<std::int8_t*>(arranged) + groups_[z(g)].bytes_at;
    ExpandRow task{};
    task.left = s_.pw;
    task.width = s_.w;
    task.columns = s_.columns();
    task.stride_x = layout.stride_x();
    task.zero_one = s_.zero_one;
    task.codes_stride = layout_.words;
    const std::uint64_t* from = find_codes(g, row - s_.ph, codes, scratch, task.codes_stride);
    const auto expand = [&](int word, std::size_t at) {
      task.codes = from == nullptr ? nullptr : from + word;
      task.to = bytes + at;
      kernels_.expand(task);
    };
    task.is_lines = true;
    task.pitch = LINE;
    task.phase = layout.line_phase();
    for (int k = 0; k < layout.lines() && row < end; ++k) {
      task.channels = std::min(64, layout.channels() - 64 * k);
      expand(k, layout.line_at(k, row));
    }
    task.is_lines = false;
    task.pitch = layout.pitch();
    task.phase = layout.rest_phase();
    task.channels = layout.rest();
    for (int k = 0; k < layout.stack() && task.channels > 0; ++k) {
      const int start = row - k;
      if (start < begin || start >= end || !layout.starts_stack(start)) continue;
      expand(layout.lines(), layout.rest_at(start) + z(k) * z(layout.rest()));
    }
  }

  // A group's codes in a row of the image, where they lie or gathered; none in the border.
  const std::uint64_t* find_codes(int g, int line, const Codes& codes, void* scratch, std::size_t& stride) const {
    if (line < 0 || line >= s_.h) return nullptr;
    const std::uint64_t* from = codes.at + z(line) * codes.row;
    const std::vector<BitRun>& runs = layout_.groups[z(g)];
    // Bits past the group's channels are not looked at.
    if (runs.size() == 1 && runs[0].first % 64 == 0) return from + runs[0].first / 64;
    stride = words_of(s_.ins().size(g));
    gather_codes(from, layout_.words, s_.w, runs, static_cast<std::uint64_t*>(scratch), stride);
    return static_cast<std::uint64_t*>(scratch);
  }

  const BConvShape s_;
  const CodeLayout layout_;
  const TileKernels& kernels_;
  const Kinds kinds_;
  std::vector<TileStep> steps_[2];  // of all groups but the last, and of that
  std::vector<GroupPlan> groups_;
  std::vector<PanelPlan> panels_;
  std::size_t arranged_ = 0;
  AlignedArray<std::uint64_t> weights_;
};

}  // namespace

Sizes tiles_sizes(const BConvShape& s) {
  const Kinds kinds(s);
  const std::size_t words =
      kinds.sum([&](int g) { return panel_count({s.outs().size(g), 1}) * PANEL * kinds.of(g).step_count(); });
  return {words * sizeof(std::uint64_t) + 2 * kinds.most_steps() * sizeof(TileStep), kinds.bytes(),
          tiles_scratch(s, kinds)};
}

bool can_tiles(const BConvShape& s) {
  const Kinds kinds(s);
  return s.positions() >= LEAST_POSITIONS &&
         std::max(kinds.bytes(), tile_scratch_bytes(kinds.most_steps())) <= MOST_BYTES;
}

// Groups so narrow that most of what tiles multiply is nobody's are popcount's.
bool suits_tiles(const BConvShape& s) {
  if (!can_tiles(s)) return false;
  const Kinds kinds(s);
  const std::size_t useful = kinds.sum([&](int g) { return z(s.taps()) * z(s.ins().size(g)) * z(s.outs().size(g)); });
  const std::size_t all =
      kinds.sum([&](int g) { return kinds.of(g).step_count() * LINE * tile_halves(s.outs().size(g)) * (PANEL / 2); });
  return ADVANTAGE * useful >= all;
}

std::unique_ptr<BConv> make_by_tiles(const BConvShape& shape, const CodeLayout& layout, WeightWords weights,
                                     const TileKernels& kernels) {
  return std::make_unique<TilesBConv>(shape, layout, weights, kernels);
}

}  // namespace ftbnn
