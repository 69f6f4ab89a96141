// Codes as bytes, weights as [panel][kh][kw][word][PANEL] bits that become bytes when a panel is multiplied.
#include "kernels/bconv/tiles.h"

#include <algorithm>

#include "base/aligned.h"
#include "kernels/bconv/layouts.h"

namespace ftbnn {

namespace {

constexpr std::size_t LEAST_POSITIONS = 16;               // fewer leave rows of a tile empty
constexpr std::size_t MOST_BYTES = std::size_t{1} << 27;  // what is larger as bytes stays bits

std::size_t z(int value) { return static_cast<std::size_t>(value); }

// A stride past the image's end leads to one output row (or column) all the same.
BytePlanes planes_of(const BConvShape& s, int channels) {
  return {s.rows(),
          s.columns(),
          static_cast<int>(words_of(channels)),
          channels,
          std::min(s.sh, s.rows()),
          std::min(s.sw, s.columns())};
}

std::size_t steps_of(const BConvShape& s, int channels) { return z(s.taps()) * words_of(channels); }

class TilesBConv final : public BConv {
 public:
  TilesBConv(const BConvShape& shape, const CodeLayout& layout, WeightWords weights, const TileKernels& kernels)
      : s_(shape), layout_(layout), kernels_(kernels) {
    for (int g = 0; g < s_.groups; ++g) {
      groups_.push_back({planes_of(s_, s_.ins().size(g)), arranged_});
      arranged_ += plane_bytes(groups_.back().planes);
    }
    std::size_t size = 0;
    for (const Panel& panel : panels_of(s_.outs())) {
      panels_.push_back({panel, size});
      size += steps_of(s_, s_.ins().size(panel.group)) * PANEL;
    }
    weights_ = AlignedArray<std::uint64_t>(size);
    for (const PanelPlan& plan : panels_) {
      const std::size_t steps = steps_of(s_, s_.ins().size(plan.panel.group));
      std::uint64_t* to = weights_.data() + plan.weights_at;
      for (int o = 0; o < plan.panel.channels; ++o, weights += steps) {
        for (std::size_t k = 0; k < steps; ++k) to[k * PANEL + z(o)] = weights[k];
      }
    }
  }

  std::size_t arranged_bytes() const override { return arranged_; }
  // Weights of a panel and sums, or the codes of a row on their way to bytes.
  std::size_t scratch_bytes() const override {
    return std::max(tile_scratch_bytes(steps_of(s_, s_.ins().largest())), gathered_bytes());
  }
  bool arranges() const override { return true; }

  void arrange(int first, int last, const Codes& codes, void* arranged, void* scratch) const override {
    const int end = last == s_.oh ? s_.rows() : std::min(last * s_.sh, s_.rows());
    for (int row = std::min(first * s_.sh, s_.rows()); row < end; ++row) expand_row(row, codes, arranged, scratch);
  }

  std::size_t best_outputs() const override { return std::size_t{1} << 17; }  // weights become bytes in every call

  void run(const BConvCall& call) const override {
    const PanelPlan& plan = panels_[z(call.panel)];
    const GroupPlan& group = groups_[z(plan.panel.group)];
    TileRows rows{};
    rows.planes = group.planes;
    rows.weights = weights_.data() + plan.weights_at;
    rows.kh = s_.kh;
    rows.kw = s_.kw;
    rows.width = s_.ow;
    rows.first = call.first;
    rows.last = call.last;
    rows.channels = plan.panel.channels;
    rows.scratch = call.scratch;
    rows.end = call.end;
    for (int image = 0; image < call.images; ++image) {
      rows.bytes = static_cast<const std::int8_t*>(call.arranged) + z(image) * call.arranged_image + group.bytes_at;
      rows.has_bytes = image > 0;
      kernels_.rows(rows);
      if (rows.end.out != nullptr) rows.end.out += call.out_image;
    }
  }

 private:
  struct GroupPlan {
    BytePlanes planes;
    std::size_t bytes_at;
  };
  struct PanelPlan {
    Panel panel;
    std::size_t weights_at;
  };

  void expand_row(int row, const Codes& codes, void* arranged, void* scratch) const {
    const int line = row - s_.ph;
    const std::uint64_t* from = line >= 0 && line < s_.h ? codes.at + z(line) * codes.row : nullptr;
    auto* gathered = static_cast<std::uint64_t*>(scratch);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const GroupPlan& group = groups_[g];
      const auto words = z(group.planes.words);
      ExpandRow task{group.planes, row,           s_.pw,       s_.w,
                     from,         layout_.words, s_.zero_one, static_cast<std::int8_t*>(arranged) + group.bytes_at};
      const std::vector<BitRun>& runs = layout_.groups[g];
      if (from != nullptr && runs.size() == 1 && runs[0].first % 64 == 0) {
        task.codes += runs[0].first / 64;  // bits past the group's channels are not looked at
      } else if (from != nullptr) {
        gather_codes(from, layout_.words, s_.w, runs, gathered, words);
        task.codes = gathered;
        task.codes_stride = words;
      }
      kernels_.expand(task);
    }
  }

  std::size_t gathered_bytes() const { return z(s_.w) * words_of(s_.ins().largest()) * sizeof(std::uint64_t); }

  const BConvShape s_;
  const CodeLayout layout_;
  const TileKernels& kernels_;
  std::vector<GroupPlan> groups_;
  std::vector<PanelPlan> panels_;
  std::size_t arranged_ = 0;
  AlignedArray<std::uint64_t> weights_;
};

}  // namespace

Sizes tiles_sizes(const BConvShape& s) {
  const int channels = s.ins().largest();
  const std::size_t steps = steps_of(s, channels);
  return {panel_count(s.outs()) * steps * PANEL * sizeof(std::uint64_t),
          z(s.groups) * plane_bytes(planes_of(s, channels)),
          std::max(tile_scratch_bytes(steps), z(s.w) * words_of(channels) * sizeof(std::uint64_t))};
}

bool suits_tiles(const BConvShape& s) {
  const int channels = s.ins().largest();
  const std::size_t bytes = z(s.groups) * plane_bytes(planes_of(s, channels));
  return s.positions() >= LEAST_POSITIONS && std::max(bytes, tile_scratch_bytes(steps_of(s, channels))) <= MOST_BYTES;
}

std::unique_ptr<BConv> make_by_tiles(const BConvShape& shape, const CodeLayout& layout, WeightWords weights,
                                     const TileKernels& kernels) {
  return std::make_unique<TilesBConv>(shape, layout, weights, kernels);
}

}  // namespace ftbnn
