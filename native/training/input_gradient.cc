#include "training/input_gradient.h"

namespace ftbnn::training {

namespace {

thread_local Scratch task_scratch;  // of whoever runs a task

// Taps that reach a coordinate of the input: those k with (coordinate + pad - k) divisible by the stride.
struct Tap {
  int k, shift;  // its source is shift + coordinate / stride
};

std::vector<Tap> taps_of(int coordinate, int size, int stride, int pad) {
  const int phase = coordinate % stride;
  std::vector<Tap> taps;
  for (int k = 0; k < size; ++k) {
    if ((phase + pad - k) % stride == 0) taps.push_back({k, (phase + pad - k) / stride});
  }
  return taps;
}

}  // namespace

InputGradient::InputGradient(const BatchShape& shape, const GradGroup& group, const std::uint64_t* inside, float* gx,
                             int slice, const GradKernels& kernels, Scratch& scratch)
    : s(shape),
      group_(group),
      kernels_(kernels),
      inside_(inside),
      gx_(gx),
      depth_(static_cast<int>(round_up(static_cast<std::size_t>(group.out), kernels.depth_step))),
      panels_(divide_up(group.in, GRAD_LANES)),
      columns_(find_columns()),
      left_(kernels, static_cast<std::size_t>(s.oh) * columns_ * slice, depth_, scratch),
      right_(kernels, panels_ * panel_size(), scratch) {}

void InputGradient::pack_weights(int panel) const {
  const int first = panel * GRAD_LANES, taps = s.kh * s.kw, lanes = std::min(GRAD_LANES, group_.in - first);
  const std::size_t row = static_cast<std::size_t>(group_.in) * taps;
  const auto pack = [&](const float* proxies) {
    kernels_.pack_signs(proxies + first * taps, row, group_.out, lanes, taps, right_.at(panel * panel_size()),
                        tap_size(), depth_);
  };
  if (group_.parts.size() == 1) return pack(group_.parts[0].weight);

  std::vector<float> proxies(group_.out * row);
  for (const GradPart& part : group_.parts) {
    const int size = part.in * taps;
    float* to = proxies.data() + (part.first_out - group_.first_out) * row + (part.first_in - group_.first_in) * taps;
    for (int o = 0; o < part.out; ++o) std::copy_n(part.weight + o * size, size, to + o * row);
  }
  pack(proxies.data());
  for (int o = 0; o < group_.out; ++o) {
    const GradPart& part = group_.part_of(o);
    const int from = part.first_in - group_.first_in, to = from + part.in;
    for (int tap = 0; tap < taps; ++tap) {
      for (int lane = 0; lane < lanes; ++lane) {
        if (lane < from || lane >= to) clear_right(o, lane, tap * tap_size());
      }
    }
  }
}

// An element of the first panel becomes a zero: of bytes, which hold codes + 1, a 1.
void InputGradient::clear_right(int k, int lane, std::size_t at) const {
  const int packed = kernels_.packed;
  const std::size_t element = at + static_cast<std::size_t>((k / packed * GRAD_LANES + lane) * packed + k % packed);
  right_.zero(element, 1);
  if (packed == 4) *static_cast<char*>(right_.at(element)) = 1;
}

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

void InputGradient::run(const Slice& slice, int task) {
  const int phase = task % phases(), y = task / phases() % s.h, panel = task / phases() / s.h * BLOCK_PANELS;
  const int ns = slice.images, words = divide_up(s.in, 64);
  std::vector<std::size_t> left_row, right_at;
  for (const Tap& ty : taps_of(y, s.kh, s.sh, s.ph)) {
    const int row = ty.shift + y / s.sh;
    if (row < 0 || row >= s.oh) continue;
    for (const Tap& tx : taps_of(phase, s.kw, s.sw, s.pw)) {
      left_row.push_back((static_cast<std::size_t>(row) * columns_ + tx.shift - first_column_) * ns);
      right_at.push_back((ty.k * s.kw + tx.k) * tap_size());
    }
  }
  if (left_row.empty()) return;

  GradProduct product = {};
  product.left_row = left_row.data();
  product.right_at = right_at.data();
  product.left_stride = left_.stride();
  product.segments = static_cast<int>(left_row.size());
  product.depth = depth_;
  product.steps = slice.rounding.image_sizes();

  const int first_channel = group_.first_in + panel * GRAD_LANES;
  GradScatter scatter = {};
  scatter.product_size = BLOCK_ROWS * GRAD_LANES;
  scatter.ns = ns;
  scatter.channels = std::min(BLOCK_PANELS * GRAD_LANES, group_.in - panel * GRAD_LANES);
  scatter.gx_x = static_cast<std::size_t>(s.sw) * s.in;
  scatter.gx_n = static_cast<std::size_t>(s.h) * s.w * s.in;
  scatter.inside_x = static_cast<std::size_t>(s.sw) * words;
  scatter.inside_n = static_cast<std::size_t>(s.h) * s.w * words;
  scatter.first = first_channel;

  task_scratch.restart();
  auto* sums = task_scratch.take<float>(BLOCK_PANELS * scatter.product_size);
  scatter.sums = sums;
  const int xs = (s.w - 1 - phase) / s.sw + 1, block = BLOCK_ROWS / ns;
  kernels_.begin();
  for (int x = 0; x < xs; x += block) {
    scatter.xs = std::min(block, xs - x);
    product.rows = scatter.xs * ns;
    product.left = left_.at(static_cast<std::size_t>(x) * ns);
    product.left_sums = left_.sums(static_cast<std::size_t>(x) * ns);
    for (int c = 0; c < scatter.channels; c += GRAD_LANES) {
      product.right = right_.at((panel + c / GRAD_LANES) * panel_size());
      product.lanes = std::min(GRAD_LANES, scatter.channels - c);
      product.out = sums + c / GRAD_LANES * scatter.product_size;
      kernels_.product(product);
    }
    const std::size_t position = (static_cast<std::size_t>(slice.first) * s.h + y) * s.w + phase + x * s.sw;
    scatter.gx = gx_ + position * s.in + first_channel;
    scatter.inside = inside_ + position * words;
    kernels_.scatter(scatter);
  }
  kernels_.end();
}

// The first is 0, or less where a tap reaches out to the left.
int InputGradient::find_columns() {
  int last = s.ow - 1;
  for (int phase = 0; phase < phases(); ++phase) {
    for (const Tap& tap : taps_of(phase, s.kw, s.sw, s.pw)) {
      first_column_ = std::min(first_column_, tap.shift);
      last = std::max(last, tap.shift + (s.w - 1 - phase) / s.sw);
    }
  }
  return last - first_column_ + 1;
}

}  // namespace ftbnn::training
