// Weights as integers of 24 bits in three signed bytes, [panel][slice][depth / 64][2][16][16][4]; windows of pixels as
// lines of bytes. The products are exact: what is rounded is the weight, by 2^-24 of the channel's largest, and the few
// sums at the end, as good as float32 at the price of three 8-bit products.
#include "kernels/stem/slices.h"

#include <algorithm>
#include <cmath>

#include "base/aligned.h"
#include "kernels/stem/layouts.h"
#include "kernels/stem/offsets.h"

namespace ftbnn {

namespace {

constexpr int LARGEST = 127 * 65536 + 127 * 256 + 127;  // in three signed bytes
constexpr int MIDDLE = 128;                             // of the pixels
constexpr int MOST_BINARY_PLACES = 60;                  // units beyond 2^+-60 would meet the ends of float32

std::size_t z(int value) { return static_cast<std::size_t>(value); }

std::size_t depth_of(const ConvShape& s) { return round_up(z(s.taps()) * z(s.in), 64); }

// The smallest power of two in which no weight has more than 24 bits.
double unit_of(double largest) {
  if (largest == 0) return 1;
  int exponent = 0;
  std::frexp(largest, &exponent);
  const double unit = std::ldexp(1.0, exponent - 23);
  return std::round(largest / unit) <= LARGEST ? unit : 2 * unit;
}

class SlicesStem final : public Stem {
 public:
  SlicesStem(const StemShape& shape, const SliceKernels& kernels)
      : s_(shape),
        kernels_(kernels),
        panels_((shape.out + PANEL - 1) / PANEL),
        depth_(static_cast<int>(depth_of(shape))),
        offsets_(shape, MIDDLE),
        weights_(z(panels_) * SLICES * z(depth_) * PANEL),
        scale_(z(panels_) * PANEL) {}

  // False if a weight is too large or too small.
  bool lay_out(const StemShape& s) {
    for (int o = 0; o < s.out; ++o) {
      const float* weights = s.weights + z(o) * z(s.in) * z(s.taps());  // [channel][tap]
      double largest = 0;
      for (int k = 0; k < s.in * s.taps(); ++k) {
        largest = std::max(largest, std::abs(static_cast<double>(weights[k]) * s.pixel_scale[k / s.taps()]));
      }
      const double unit = unit_of(largest);
      if (std::abs(std::ilogb(unit)) > MOST_BINARY_PLACES) return false;
      scale_[z(o)] = static_cast<float>((s.scale != nullptr ? s.scale[o] : 1) * unit);
      slice(s, o, weights, unit);
    }
    return true;
  }

  std::size_t pixel_bytes() const override { return z(s_.rows()) * row_bytes(); }
  std::size_t scratch_bytes() const override { return round_up(z(s_.ow), 16) * z(depth_); }

  // Pixels less 128, inside a border of zeros that nothing ever overwrites.
  void load(int row, const std::uint8_t* image, void* pixels) const override {
    const std::size_t line = z(s_.w) * z(s_.in);
    const std::uint8_t* from = image + z(row) * line;
    std::int8_t* to = static_cast<std::int8_t*>(pixels) + z(row + s_.ph) * row_bytes() + z(s_.pw) * z(s_.in);
    for (std::size_t k = 0; k < line; ++k) to[k] = static_cast<std::int8_t>(from[k] ^ 0x80);
  }

  void run(const StemCall& call) const override {
    PatchRow patch{};
    patch.row_stride = row_bytes();
    patch.kh = s_.kh;
    patch.run = s_.kw * s_.in;
    patch.step = s_.sw * s_.in;
    patch.width = s_.ow;
    patch.depth = depth_;
    patch.patches = static_cast<std::int8_t*>(call.scratch);
    Epilogue end = call.end;
    for (int y = call.first; y < call.last; ++y, next_row(end)) {
      patch.in = static_cast<const std::int8_t*>(call.pixels) + z(y * s_.sh) * patch.row_stride;
      kernels_.patches(patch);
      for (int panel = 0; panel < panels_; ++panel) {
        SlicedRow row{patch.patches, depth_, s_.ow, std::min(PANEL, s_.out - panel * PANEL), {}, {}, {}, {}};
        row.weights = weights_.data() + z(panel) * SLICES * z(depth_) * PANEL;
        row.offset = offsets_.row(panel, y);
        row.border = offsets_.columns();
        row.end = of_panel(end, panel);
        row.end.scale = scale_.data() + z(panel) * PANEL;
        kernels_.row(row);
      }
    }
  }

 private:
  std::size_t row_bytes() const { return z(s_.columns()) * z(s_.in); }

  void slice(const StemShape& s, int o, const float* weights, double unit) {
    for (int k = 0; k < s.in * s.taps(); ++k) {
      const int at = k % s.taps() * s.in + k / s.taps();  // in the patch: [tap][channel]
      auto value = static_cast<int>(std::round(static_cast<double>(weights[k]) * s.pixel_scale[k / s.taps()] / unit));
      for (int part = 0; part < SLICES; ++part) {
        const int digit = ((value + 128) & 255) - 128;
        const std::size_t block =
            ((z(o / PANEL) * SLICES + z(part)) * z(depth_ / 64) + z(at / 64)) * 2 + z(o % PANEL / 16);
        weights_[((block * 16 + z(at % 64 / 4)) * 16 + z(o % 16)) * 4 + z(at % 4)] = static_cast<std::int8_t>(digit);
        value = (value - digit) / 256;
      }
    }
  }

  const ConvShape s_;
  const SliceKernels& kernels_;
  const int panels_, depth_;
  const StemOffsets offsets_;
  AlignedArray<std::int8_t> weights_;
  AlignedArray<float> scale_;
};

}  // namespace

bool suits_slices(const StemShape& s) {
  return s.groups == 1 && s.taps() * s.in <= MAX_SLICED_DEPTH && StemOffsets::fits(s);
}

Sizes slices_sizes(const StemShape& s) {
  const std::size_t depth = depth_of(s);
  return {panel_count(s.outs()) * PANEL * (SLICES * depth + sizeof(float)) + StemOffsets::most(s) * sizeof(float),
          s.border_positions() * z(s.in), round_up(z(s.ow), 16) * depth};
}

std::unique_ptr<Stem> make_by_slices(const StemShape& shape, const SliceKernels& kernels) {
  auto made = std::make_unique<SlicesStem>(shape, kernels);
  return made->lay_out(shape) ? std::move(made) : nullptr;
}

}  // namespace ftbnn
