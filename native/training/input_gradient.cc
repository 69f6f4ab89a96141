#include "training/input_gradient.h"

#include "training/input_look_ups.h"
#include "training/input_products.h"

namespace ftbnn::training {

namespace {

// Those k with (coordinate + pad - k) divisible by the stride.
std::vector<GradTap> taps_of(int coordinate, int size, int stride, int pad) {
  const int phase = coordinate % stride;
  std::vector<GradTap> taps;
  for (int k = 0; k < size; ++k) {
    if ((phase + pad - k) % stride == 0) taps.push_back({k, (phase + pad - k) / stride});
  }
  return taps;
}

}  // namespace

InputGradient::InputGradient(const BatchShape& shape, const GradGroup& group, const ToInput& to, int slice,
                             const GradKernels& kernels, int depth_step, Scratch& scratch)
    : s(shape),
      group_(group),
      kernels_(kernels),
      to_(to),
      depth_(divide_up(group.out, depth_step) * depth_step),
      panels_(divide_up(group.in, GRAD_LANES)),
      columns_(find_columns()),
      left_(kernels, static_cast<std::size_t>(s.oh) * columns_ * slice, depth_, scratch) {}

void InputGradient::pack(const Slice& slice, int y) {
  const int oh = s.oh, ow = s.ow;
  if (y >= oh) return;
  const std::size_t column = slice.images, row = y * columns_ * column;
  left_.zero(row, -first_column_ * column);
  for (int x = 0; x < ow; ++x) {
    kernels_.pack_rows(slice.gy + (static_cast<std::size_t>(y) * ow + x) * s.out + group_.first_out,
                       static_cast<std::size_t>(oh) * ow * s.out, slice.images, group_.out,
                       left_.rows(row + (x - first_column_) * column, slice.rounding.image_rates()));
  }
  left_.zero(row + (ow - first_column_) * column, (columns_ + first_column_ - ow) * column);
}

std::vector<GradTap> InputGradient::row_taps(int y) const {
  std::vector<GradTap> taps = taps_of(y, s.kh, s.sh, s.ph);
  const auto is_outside = [&](const GradTap& tap) {
    const int row = tap.shift + y / s.sh;
    return row < 0 || row >= s.oh;
  };
  taps.erase(std::remove_if(taps.begin(), taps.end(), is_outside), taps.end());
  return taps;
}

std::vector<GradTap> InputGradient::column_taps(int phase) const { return taps_of(phase, s.kw, s.sw, s.pw); }

GradScatter InputGradient::scatter_from(int image, int ns, int y, int phase, int x, int panel, int panels) const {
  const std::size_t words = divide_up(s.in, 64), stride = s.sw, size = static_cast<std::size_t>(s.h) * s.w;
  const std::size_t position = (static_cast<std::size_t>(image) * s.h + y) * s.w + phase + x * stride;
  const int first_channel = group_.first_in + panel * GRAD_LANES;
  GradScatter scatter = {};
  scatter.ns = ns;
  scatter.channels = std::min(panels * GRAD_LANES, group_.in - panel * GRAD_LANES);
  scatter.gx = to_.gx + position * s.in + first_channel;
  scatter.gx_x = stride * s.in;
  scatter.gx_n = size * s.in;
  scatter.inside = to_.inside + position * words;
  scatter.inside_x = stride * words;
  scatter.inside_n = size * words;
  scatter.first = first_channel;
  scatter.adds = to_.adds;
  return scatter;
}

void InputGradient::leave(int image, int ns, int y, int phase) const {
  if (to_.adds) return;
  const GradScatter all = scatter_from(image, ns, y, phase, 0, 0, panels_);
  for (int n = 0; n < ns; ++n) {
    for (int x = 0; x < columns_of(phase); ++x) {
      std::fill_n(all.gx + n * all.gx_n + x * all.gx_x, all.channels, 0.0F);
    }
  }
}

// The first is 0, or less where a tap reaches out to the left.
int InputGradient::find_columns() {
  int last = s.ow - 1;
  for (int phase = 0; phase < phases(); ++phase) {
    for (const GradTap& tap : column_taps(phase)) {
      first_column_ = std::min(first_column_, tap.shift);
      last = std::max(last, tap.shift + columns_of(phase) - 1);
    }
  }
  return last - first_column_ + 1;
}

std::vector<std::unique_ptr<InputGradient>> input_gradients(const BatchShape& shape, const std::vector<GradPart>& parts,
                                                            const ToInput& to, int slice, const GradKernels& kernels,
                                                            int threads, Scratch& scratch) {
  constexpr int least = 9 * 96;  // as fast with 64 channels, slower with fewer (Zen 5)
  const bool by_look_up = are_looked_up(shape, parts.front(), kernels, least);
  std::vector<std::unique_ptr<InputGradient>> made;
  for (const GradGroup& group : grad_groups(parts, by_look_up ? 0 : shape.in + shape.out)) {
    if (by_look_up) {
      made.push_back(std::make_unique<InputLookUps>(shape, group, to, slice, kernels, threads, scratch));
    } else {
      made.push_back(std::make_unique<InputProducts>(shape, group, to, slice, kernels, scratch));
    }
  }
  return made;
}

}  // namespace ftbnn::training
