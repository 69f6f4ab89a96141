#include "training/input_products.h"

namespace ftbnn::training {

namespace {

thread_local Scratch task_scratch;  // of whoever runs a task

}  // namespace

InputProducts::InputProducts(const BatchShape& shape, const GradGroup& group, const ToInput& to, int slice,
                             const GradKernels& kernels, Scratch& scratch)
    : InputGradient(shape, group, to, slice, kernels, kernels.depth_step, scratch),
      right_(kernels, panels_ * panel_size(), scratch) {}

void InputProducts::pack_weights(int panel) const {
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

// An element of the first panel becomes a zero.
void InputProducts::clear_right(int k, int lane, std::size_t at) const {
  const int packed = kernels_.packed;
  right_.fill(at + static_cast<std::size_t>((k / packed * GRAD_LANES + lane) * packed + k % packed), 1, 0);
}

void InputProducts::run(const Slice& slice, int task) {
  const int phase = task % phases(), y = task / phases() % s.h, panel = task / phases() / s.h * BLOCK_PANELS;
  const int ns = slice.images;
  std::vector<std::size_t> left_row, right_at;
  for (const GradTap& ty : row_taps(y)) {
    for (const GradTap& tx : column_taps(phase)) {
      left_row.push_back((static_cast<std::size_t>(ty.shift + y / s.sh) * columns_ + tx.shift - first_column_) * ns);
      right_at.push_back((ty.k * s.kw + tx.k) * tap_size());
    }
  }
  if (left_row.empty()) {
    if (panel == 0) leave(slice.first, ns, y, phase);
    return;
  }

  GradProduct product = {};
  product.left_row = left_row.data();
  product.right_at = right_at.data();
  product.left_stride = left_.stride();
  product.segments = static_cast<int>(left_row.size());
  product.depth = depth_;
  product.steps = slice.rounding.image_sizes();

  task_scratch.restart();
  constexpr std::size_t product_size = BLOCK_ROWS * GRAD_LANES;
  auto* sums = task_scratch.take<float>(BLOCK_PANELS * product_size);
  const int xs = columns_of(phase), block = BLOCK_ROWS / ns;
  kernels_.begin();
  for (int x = 0; x < xs; x += block) {
    GradScatter scatter = scatter_from(slice.first, ns, y, phase, x, panel, BLOCK_PANELS);
    scatter.sums = sums;
    scatter.product_size = product_size;
    scatter.xs = std::min(block, xs - x);
    product.rows = scatter.xs * ns;
    product.left = left_.at(static_cast<std::size_t>(x) * ns);
    for (int c = 0; c < scatter.channels; c += GRAD_LANES) {
      product.right = right_.at((panel + c / GRAD_LANES) * panel_size());
      product.lanes = std::min(GRAD_LANES, scatter.channels - c);
      product.out = sums + c / GRAD_LANES * product_size;
      kernels_.product(product);
    }
    kernels_.scatter(scatter);
  }
  kernels_.end();
}

}  // namespace ftbnn::training
