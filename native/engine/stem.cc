#include "engine/stem.h"

#include <algorithm>
#include <cmath>

#include "engine/limits.h"
#include "kernels/border.h"
#include "kernels/sliced_row.h"

namespace ftbnn {

namespace {

constexpr int LARGEST = 127 * 65536 + 127 * 256 + 127;  // in three signed bytes
constexpr int MOST_BINARY_PLACES = 60;                  // units beyond 2^+-60 would meet the ends of float32
constexpr std::size_t MAX_OFFSETS = std::size_t{1} << 20;

std::size_t z(int value) { return static_cast<std::size_t>(value); }

// The one convolution that reads the image, if nothing else does and its window is small enough.
int find_stem(const Model& model) {
  int found = -1;
  for (std::size_t k = 0; k < model.operators.size(); ++k) {
    const Operator& op = model.operators[k];
    if (op.tail.shortcut == 0) return -1;
    for (const int input : op.inputs) {
      if (input != 0) continue;
      if (found >= 0 || op.kind != Kind::conv || op.groups != 1) return -1;
      if (op.window.kh * op.window.kw * model.input().c > MAX_SLICED_DEPTH) return -1;
      found = static_cast<int>(k);
    }
  }
  return found;
}

// The smallest power of two in which no weight has more than 24 bits.
double unit_of(double largest) {
  if (largest == 0) return 1;
  int exponent = 0;
  std::frexp(largest, &exponent);
  const double unit = std::ldexp(1.0, exponent - 23);
  return std::round(largest / unit) <= LARGEST ? unit : 2 * unit;
}

}  // namespace

StemPlan make_stem(const Model& model, const float* scale, const float* shift) {
  StemPlan stem;
  const int index = find_stem(model);
  if (index < 0) return stem;
  const Operator& op = model.operators[z(index)];
  const Shape &in = model.input(), &out = model.values[z(op.output)];
  const Window& w = op.window;
  const int taps = w.kh * w.kw, panels = panels_of(out.c);
  std::vector<Inside> rows, columns;
  stem.row_class = border_classes(out.h, w.sh, w.kh, w.ph, in.h, rows);
  stem.column_class = border_classes(out.w, w.sw, w.kw, w.pw, in.w, columns);
  stem.row_classes = static_cast<int>(rows.size());
  stem.column_classes = static_cast<int>(columns.size());
  const std::size_t classes = rows.size() * columns.size();
  if (z(panels) * classes * PANEL > MAX_OFFSETS) return stem;
  stem.rows = std::max((out.h - 1) * w.sh + w.kh, w.ph + in.h);
  stem.columns = std::max((out.w - 1) * w.sw + w.kw, w.pw + in.w);
  stem.run = w.kw * in.c;
  stem.step = w.sw * in.c;
  stem.depth = static_cast<int>(round_up(z(taps) * z(in.c), 64));
  stem.pixel_bytes = z(stem.rows) * z(stem.columns) * z(in.c);
  stem.patch_bytes = round_up(z(out.w), 16) * z(stem.depth);
  stem.weights = AlignedArray<std::int8_t>(z(panels) * SLICES * z(stem.depth) * PANEL);
  stem.scale = AlignedArray<float>(z(panels) * PANEL);
  stem.offset = AlignedArray<float>(z(panels) * classes * PANEL);
  for (int o = 0; o < out.c; ++o) {
    const float* weights = op.weights + z(o) * z(in.c) * z(taps);  // [channel][tap]
    double largest = 0;
    for (int k = 0; k < in.c * taps; ++k) {
      largest = std::max(largest, std::abs(static_cast<double>(weights[k]) * scale[k / taps]));
    }
    const double unit = unit_of(largest);
    if (std::abs(std::ilogb(unit)) > MOST_BINARY_PLACES) return StemPlan{};
    const double outer = op.tail.scale != nullptr ? op.tail.scale[o] : 1,
                 bias = op.tail.shift != nullptr ? op.tail.shift[o] : 0;
    const std::size_t panel = z(o / PANEL);
    stem.scale[z(o)] = static_cast<float>(outer * unit);
    for (int k = 0; k < in.c * taps; ++k) {
      const int at = k % taps * in.c + k / taps;  // in the patch: [tap][channel]
      auto value = static_cast<int>(std::round(static_cast<double>(weights[k]) * scale[k / taps] / unit));
      for (int slice = 0; slice < SLICES; ++slice) {
        const int digit = ((value + 128) & 255) - 128;
        const std::size_t block =
            ((panel * SLICES + z(slice)) * z(stem.depth / 64) + z(at / 64)) * 2 + z(o % PANEL / 16);
        stem.weights[((block * 16 + z(at % 64 / 4)) * 16 + z(o % 16)) * 4 + z(at % 4)] =
            static_cast<std::int8_t>(digit);
        value = (value - digit) / 256;
      }
    }
    float* offset = stem.offset.data() + panel * classes * PANEL + z(o % PANEL);
    for (const Inside& r : rows) {
      for (const Inside& c : columns) {
        double constant = 0;
        for (int channel = 0; channel < in.c; ++channel) {
          const double middle = 128.0 * scale[channel] + shift[channel];
          for (int ky = r.first; ky < r.last; ++ky) {
            for (int kx = c.first; kx < c.last; ++kx) constant += weights[channel * taps + ky * w.kw + kx] * middle;
          }
        }
        *offset = static_cast<float>(outer * constant + bias);
        offset += PANEL;
      }
    }
  }
  stem.index = index;
  return stem;
}

}  // namespace ftbnn
