#include <vector>

#include "tests/reference.h"

namespace ftbnn {

namespace {

class ReferenceBConv final : public BConv {
 public:
  ReferenceBConv(const BConvShape& shape, const CodeLayout& layout, WeightWords weights)
      : s_(shape), layout_(layout), weights_(weights, weights + weight_words(shape)) {}

  void run(const BConvCall& call) const override {
    const Panel panel = panels_of(s_.outs())[static_cast<std::size_t>(call.panel)];
    Epilogue end = call.end;
    for (int y = call.first; y < call.last; ++y, next_row(end)) {
      for (int x = 0; x < s_.ow; ++x) {
        float sums[PANEL] = {};
        for (int o = 0; o < panel.channels; ++o) sums[o] = static_cast<float>(sum(call.codes, panel, o, y, x));
        reference_finish(end, static_cast<std::size_t>(x), panel.channels, sums);
      }
    }
  }

 private:
  int sum(const Codes& codes, const Panel& panel, int o, int y, int x) const {
    int found = 0;
    for (int ky = 0; ky < s_.kh; ++ky) {
      for (int kx = 0; kx < s_.kw; ++kx) {
        const int row = y * s_.sh + ky - s_.ph, column = x * s_.sw + kx - s_.pw;
        if (row < 0 || row >= s_.h || column < 0 || column >= s_.w) continue;
        const std::uint64_t* position =
            codes.at + static_cast<std::size_t>(row) * codes.row + static_cast<std::size_t>(column) * layout_.words;
        for (int c = 0; c < s_.ins().size(panel.group); ++c) {
          const int bit = code_bit(position, panel.group, c);
          found += (s_.zero_one ? bit : 2 * bit - 1) * (weight_bit(panel, o, c, ky * s_.kw + kx) ? 1 : -1);
        }
      }
    }
    return found;
  }

  // Channel c of a group, wherever its runs have it.
  int code_bit(const std::uint64_t* position, int group, int c) const {
    for (const BitRun& run : layout_.groups[static_cast<std::size_t>(group)]) {
      if (c < run.count) {
        const int at = run.first + c;
        return static_cast<int>(position[at / 64] >> at % 64 & 1U);
      }
      c -= run.count;
    }
    return 0;
  }

  bool weight_bit(const Panel& panel, int o, int c, int tap) const {
    const Groups ins = s_.ins(), outs = s_.outs();
    const std::size_t taps = static_cast<std::size_t>(s_.taps());
    const std::size_t before = static_cast<std::size_t>(outs.first(panel.group)) * taps * words_of(ins.size(0));
    const std::size_t words = words_of(ins.size(panel.group));
    const std::size_t own = static_cast<std::size_t>(panel.first - outs.first(panel.group) + o);
    const std::size_t at = before + (own * taps + static_cast<std::size_t>(tap)) * words;
    return (weights_[at + static_cast<std::size_t>(c / 64)] >> c % 64 & 1U) != 0;
  }

  const BConvShape s_;
  const CodeLayout layout_;
  const std::vector<std::uint64_t> weights_;
};

}  // namespace

const BConvKernels reference_bconv = {
    [](const BConvShape&) { return true; }, [](const BConvShape&) { return true; },
    [](const BConvShape&) { return Sizes{}; },
    [](const BConvShape& shape, const CodeLayout& layout, WeightWords weights) -> std::unique_ptr<BConv> {
      return std::make_unique<ReferenceBConv>(shape, layout, weights);
    },
    false};

}  // namespace ftbnn
