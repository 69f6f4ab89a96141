#include <vector>

#include "tests/reference.h"

namespace ftbnn {

void reference_finish(const Epilogue& end, std::size_t x, int channels, const float* sums) {
  float all[PANEL];
  for (int o = 0; o < channels; ++o) {
    float y = bend_first(end, o, end.scale[o] * sums[o] + end.shift[o]);
    if (end.shortcut != nullptr) y += end.shortcut[x * end.shortcut_stride + static_cast<std::size_t>(o)];
    all[o] = y = activate(end, o, y);
    if (end.out != nullptr) end.out[x * end.out_stride + static_cast<std::size_t>(o)] = y;
  }
  if (end.codes != nullptr) sign(end, x, 0, channels, all);
}

namespace {

class ReferenceConv final : public Conv {
 public:
  ReferenceConv(const ConvShape& shape, const float* weights)
      : s_(shape), weights_(weights, weights + shape.macs() / shape.positions()) {}

  void run(const ConvCall& call) const override {
    const Panel panel = panels_of(s_.outs())[static_cast<std::size_t>(call.panel)];
    const int first = s_.ins().first(panel.group), inputs = s_.ins().size(panel.group);
    Epilogue end = call.end;
    for (int y = call.first; y < call.last; ++y, next_row(end)) {
      for (int x = 0; x < s_.ow; ++x) {
        float sums[PANEL] = {};
        for (int o = 0; o < panel.channels; ++o) {
          for (int ky = 0; ky < s_.kh; ++ky) {
            for (int kx = 0; kx < s_.kw; ++kx) {
              const int row = y * s_.sh + ky - s_.ph, column = x * s_.sw + kx - s_.pw;
              for (int c = 0; c < inputs; ++c) {
                const bool inside = row >= 0 && row < s_.h && column >= 0 && column < s_.w;
                const std::ptrdiff_t at =
                    static_cast<std::ptrdiff_t>(call.image.row) * row + column * s_.in + first + c;
                const float value = inside ? call.image.at[at] : 0;
                sums[o] += value * weight(panel, o, c, ky, kx);
              }
            }
          }
        }
        reference_finish(end, static_cast<std::size_t>(x), panel.channels, sums);
      }
    }
  }

 private:
  float weight(const Panel& panel, int o, int c, int ky, int kx) const {
    const int before = panel.first - s_.outs().first(panel.group) + o, inputs = s_.ins().size(panel.group);
    const int groups = s_.outs().first(panel.group) * s_.ins().size(0);  // weights of a tap in the groups before
    return weights_[static_cast<std::size_t>(((groups + before * inputs + c) * s_.kh + ky) * s_.kw + kx)];
  }

  const ConvShape s_;
  const std::vector<float> weights_;
};

}  // namespace

const ConvKernels reference_conv = {1, [](const ConvShape&) { return true; }, [](const ConvShape&) { return Sizes{}; },
                                    [](const ConvShape& shape, const float* weights) -> std::unique_ptr<Conv> {
                                      return std::make_unique<ReferenceConv>(shape, weights);
                                    }};

}  // namespace ftbnn
