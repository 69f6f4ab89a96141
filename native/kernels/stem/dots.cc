// Weights that the network has as integers, [panel][plane][quad][PANEL]; pixels by planes, with their
// border. The plane of the channel with the largest scale is the first, so that ratios are at most 1.
#include "kernels/stem/dots.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/stem/layouts.h"
#include "kernels/stem/offsets.h"

namespace ftbnn {

namespace {

constexpr int QUAD = 4;                                // bytes
constexpr int LARGEST = 32767;                         // of 16 bits
constexpr int MOST_TAPS = 0x7fffffff / 255 / LARGEST;  // whose sum fits 32 bits
constexpr int MOST_CHANNELS = 64;

std::size_t z(int value) { return static_cast<std::size_t>(value); }

int integer(const Rounded& rounded, std::size_t at) {
  return rounded.bits == 8 ? static_cast<const std::int8_t*>(rounded.integers)[at]
                           : static_cast<const std::int16_t*>(rounded.integers)[at];
}

struct Layout {
  explicit Layout(const StemShape& s)
      : size(s.rounded.bits / 8),
        quads((s.kw * size + QUAD - 1) / QUAD),
        row(round_up(z(s.columns()) * z(size) + QUAD, CACHE_LINE)),
        plane(z(s.rows()) * row),
        panel(z(s.in) * z(s.kh) * z(quads) * PANEL) {}

  int size, quads;         // bytes of a pixel; quads of a row of the window
  std::size_t row, plane;  // bytes
  std::size_t panel;       // quads
};

class DotsStem final : public Stem {
 public:
  DotsStem(const StemShape& shape, const DotKernels& kernels)
      : s_(shape),
        layout_(shape),
        dots_(shape.rounded.bits == 8 ? kernels.of_8 : kernels.of_16),
        panels_((shape.out + PANEL - 1) / PANEL),
        offsets_(shape, 0),
        weights_(z(panels_) * layout_.panel),
        start_(z(panels_) * z(shape.in) * PANEL),
        scale_(z(panels_) * PANEL) {
    for (int ky = 0; ky < s_.kh; ++ky) {
      for (int quad = 0; quad < layout_.quads; ++quad) places_.push_back(z(ky) * layout_.row + z(quad) * QUAD);
    }
    find_inner();
    const float* scales = shape.pixel_scale;
    const auto is_smaller = [](float a, float b) { return std::abs(a) < std::abs(b); };
    for (int c = 0; c < s_.in; ++c) order_.push_back(c);
    std::swap(order_[0], order_[z(static_cast<int>(std::max_element(scales, scales + s_.in, is_smaller) - scales))]);
    const double largest = scales[order_[0]];
    for (const int c : order_) ratio_.push_back(largest == 0 ? 0 : static_cast<float>(scales[c] / largest));
    for (int o = 0; o < s_.out; ++o) {
      scale_[z(o)] =
          static_cast<float>((shape.scale != nullptr ? shape.scale[o] : 1.0) * shape.rounded.unit[o] * largest);
      lay_out(shape.rounded, o, kernels.middle);
    }
  }

  std::size_t pixel_bytes() const override { return z(s_.in) * layout_.plane; }
  std::size_t scratch_bytes() const override { return 0; }

  // Inside a border of zeros that nothing ever overwrites.
  void load(int row, const std::uint8_t* image, void* pixels) const override {
    std::uint8_t* out[MOST_CHANNELS];
    const std::size_t first = z(row + s_.ph) * layout_.row + z(s_.pw) * z(layout_.size);
    for (int plane = 0; plane < s_.in; ++plane) {
      out[order_[z(plane)]] = static_cast<std::uint8_t*>(pixels) + z(plane) * layout_.plane + first;
    }
    dots_.planes({image + z(row) * z(s_.w) * z(s_.in), s_.w, s_.in, out});
  }

  void run(const StemCall& call) const override {
    DotRow row{};
    row.plane_stride = layout_.plane;
    row.planes = s_.in;
    row.quads = static_cast<int>(places_.size());
    row.places = places_.data();
    row.step = s_.sw * layout_.size;
    row.ratio = ratio_.data();
    row.width = s_.ow;
    row.border = offsets_.columns();
    row.inner = inner_;
    row.outer = outer_;
    Epilogue end = call.end;
    for (int y = call.first; y < call.last; ++y, next_row(end)) {
      row.in = static_cast<const std::uint8_t*>(call.pixels) + z(y * s_.sh) * layout_.row;
      for (int panel = 0; panel < panels_; ++panel) {
        row.weights = weights_.data() + z(panel) * layout_.panel;
        row.start = start_.data() + z(panel) * z(s_.in) * PANEL;
        row.channels = std::min(PANEL, s_.out - panel * PANEL);
        row.offset = offsets_.row(panel, y);
        row.end = of_panel(end, panel);
        row.end.scale = scale_.data() + z(panel) * PANEL;
        dots_.row(row);
      }
    }
  }

 private:
  void find_inner() {
    for (int first = 0, last; first < s_.ow; first = last) {
      for (last = first; last < s_.ow && offsets_.columns()[last] == offsets_.columns()[first];) ++last;
      if (last - first > outer_ - inner_) inner_ = first, outer_ = last;
    }
  }

  void lay_out(const Rounded& rounded, int o, int middle) {
    for (int plane = 0; plane < s_.in; ++plane) {
      for (int t = 0; t < s_.taps(); ++t) {
        const int value = integer(rounded, (z(o) * z(s_.in) + z(order_[z(plane)])) * z(s_.taps()) + z(t));
        const int at = t % s_.kw * layout_.size;  // bytes from the start of the window's row
        const std::size_t quad = (z(plane) * z(s_.kh) + z(t / s_.kw)) * z(layout_.quads) + z(at / QUAD);
        std::int32_t& to = weights_[z(o / PANEL) * layout_.panel + quad * PANEL + z(o % PANEL)];
        std::memcpy(reinterpret_cast<char*>(&to) + at % QUAD, &value, z(layout_.size));  // of the lowest bytes
        start_[(z(o / PANEL) * z(s_.in) + z(plane)) * PANEL + z(o % PANEL)] += middle * value;
      }
    }
  }

  const ConvShape s_;
  const Layout layout_;
  const Dots& dots_;
  const int panels_;
  int inner_ = 0, outer_ = 0;
  std::vector<std::size_t> places_;
  std::vector<int> order_;  // the channel of each plane
  std::vector<float> ratio_;
  const StemOffsets offsets_;
  AlignedArray<std::int32_t> weights_, start_;
  AlignedArray<float> scale_;
};

}  // namespace

// Of windows one pixel wide a quad would have one product, as a float has.
bool suits_dots(const StemShape& s, const DotKernels& kernels) {
  const bool is_there = (s.rounded.bits == 8 ? kernels.of_8 : kernels.of_16).row != nullptr;
  return s.rounded.integers != nullptr && is_there && s.kw > 1 && s.groups == 1 && s.in <= MOST_CHANNELS &&
         s.taps() <= MOST_TAPS && StemOffsets::fits(s);
}

Sizes dots_sizes(const StemShape& s) {
  const Layout layout(s);
  const std::size_t panels = panel_count(s.outs());
  return {panels * ((layout.panel + z(s.in) * PANEL) * sizeof(std::int32_t) + PANEL * sizeof(float)) +
              StemOffsets::most(s) * sizeof(float) + (z(s.in) + z(s.kh) * z(layout.quads)) * sizeof(std::size_t),
          z(s.in) * layout.plane, 0};
}

std::unique_ptr<Stem> make_by_dots(const StemShape& shape, const DotKernels& kernels) {
  return std::make_unique<DotsStem>(shape, kernels);
}

}  // namespace ftbnn
