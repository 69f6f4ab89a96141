// Weights as [panel][kh][kw][in][PANEL]: a lane is an output channel. The image of a single group is read where it
// lies; of several, each group's part is gathered, with its border.
#include "kernels/conv/panels.h"

#include <algorithm>

#include "base/aligned.h"
#include "kernels/conv/layouts.h"

namespace ftbnn {

namespace {

std::size_t z(int value) { return static_cast<std::size_t>(value); }

class PanelsConv final : public Conv {
 public:
  PanelsConv(const ConvShape& shape, const float* weights, const PanelKernels& kernels) : s_(shape), kernels_(kernels) {
    std::size_t size = 0;
    for (const Panel& panel : panels_of(s_.outs())) {
      panels_.push_back({panel, size});
      size += depth(panel.group) * PANEL;
    }
    weights_ = AlignedArray<float>(size);
    for (const PanelPlan& plan : panels_) {
      const int inputs = s_.ins().size(plan.panel.group), taps = s_.taps();
      const std::size_t size = z(inputs) * z(taps);
      for (int c = 0; c < inputs; ++c) {
        for (int t = 0; t < taps; ++t) {
          float* to = weights_.data() + plan.weights_at + (z(t) * z(inputs) + z(c)) * PANEL;
          for (int o = 0; o < plan.panel.channels; ++o) to[o] = weights[z(o) * size + z(c * taps + t)];
        }
      }
      weights += z(plan.panel.channels) * size;
    }
  }

  std::size_t arranged_bytes() const override {
    return gathers() ? z(s_.rows()) * z(s_.columns()) * z(s_.in) * sizeof(float) : 0;
  }
  bool arranges() const override { return gathers(); }

  void arrange(int first, int last, const RealImage& image, void* arranged) const override {
    for (int row = first * s_.sh; row < s_.end_row(last); ++row) gather_row(row, image, arranged);
  }

  void run(const ConvCall& call) const override {
    for (int n = 0; n < call.panels; ++n) run_panel(call, call.panel + n, of_panel(call.end, n));
  }

 private:
  struct PanelPlan {
    Panel panel;
    std::size_t weights_at;
  };

  void run_panel(const ConvCall& call, int panel, const Epilogue& end) const {
    const PanelPlan& plan = panels_[z(panel)];
    ConvRow row{};
    row.channels_in = s_.ins().size(plan.panel.group);
    row.kh = s_.kh;
    row.kw = s_.kw;
    row.stride = s_.sw;
    row.width = s_.ow;
    row.channels = plan.panel.channels;
    row.weights = weights_.data() + plan.weights_at;
    const float* first;
    if (gathers()) {
      row.row_stride = z(s_.columns()) * z(row.channels_in);
      first = gathered(const_cast<void*>(call.arranged), plan.panel.group);
    } else {
      row.row_stride = call.image.row;
      first = call.image.at - z(s_.ph) * call.image.row - z(s_.pw) * z(s_.in);
    }
    row.end = end;
    for (int y = call.first; y < call.last; ++y, next_row(row.end)) {
      row.in = first + z(y * s_.sh) * row.row_stride;
      kernels_.row(row);
    }
  }

  void gather_row(int row, const RealImage& image, void* arranged) const {
    const int line = row - s_.ph;
    const bool is_inside = line >= 0 && line < s_.h;
    for (int g = 0; g < s_.groups; ++g) {
      const std::size_t size = z(s_.ins().size(g)), columns = z(s_.columns());
      float* to = gathered(arranged, g) + z(row) * columns * size;
      std::fill_n(to, columns * size, 0.0F);
      if (!is_inside) continue;
      const float* from = image.at + z(line) * image.row + z(s_.ins().first(g));
      for (int x = 0; x < s_.w; ++x, from += s_.in) std::copy_n(from, size, to + z(x + s_.pw) * size);
    }
  }

  bool gathers() const { return !reads_in_place(s_); }
  std::size_t depth(int group) const { return z(s_.taps()) * z(s_.ins().size(group)); }
  float* gathered(void* arranged, int group) const {
    return static_cast<float*>(arranged) + z(s_.rows()) * z(s_.columns()) * z(s_.ins().first(group));
  }

  const ConvShape s_;
  const PanelKernels& kernels_;
  std::vector<PanelPlan> panels_;
  AlignedArray<float> weights_;
};

}  // namespace

Sizes panels_sizes(const ConvShape& s) {
  const std::uint64_t weights = std::uint64_t{panel_count(s.outs())} * PANEL * z(s.taps()) * z(s.ins().largest());
  const std::uint64_t image = reads_in_place(s) ? 0 : s.border_positions() * z(s.in);
  return {weights * sizeof(float), image * sizeof(float), 0};
}

std::unique_ptr<Conv> make_by_panels(const ConvShape& shape, const float* weights, const PanelKernels& kernels) {
  return std::make_unique<PanelsConv>(shape, weights, kernels);
}

}  // namespace ftbnn
