#include "training/input_products.h"

#include <cstring>

namespace ftbnn::training {

namespace {

constexpr int SPAN = 16;  // lanes: of more, fewer are of one group
constexpr std::size_t PRODUCT_SIZE = BLOCK_ROWS * GRAD_LANES;

thread_local Scratch task_scratch;  // of whoever runs a task

}  // namespace

InputProducts::InputProducts(const BatchShape& shape, const GradGroup& group, const ToInput& to, int slice,
                             const GradKernels& kernels, Scratch& scratch)
    : InputGradient(shape, group, to, slice, kernels, kernels.depth_step, scratch),
      list_(find_panels()),
      right_(kernels, size(), scratch) {}

// Whole steps of the depth.
InputProducts::Span InputProducts::span_of(int panel, int lane, int lanes) const {
  const int first = group_.first_in + panel * GRAD_LANES + lane, step = kernels_.depth_step;
  const auto ends_behind = [&](const GradPart& part) { return part.first_in + part.in > first; };
  const auto begins_before = [&](const GradPart& part) { return part.first_in < first + lanes; };
  const GradPart& one = *std::find_if(group_.parts.begin(), group_.parts.end(), ends_behind);
  const GradPart& other = *std::find_if(group_.parts.rbegin(), group_.parts.rend(), begins_before);
  const int from = (one.first_out - group_.first_out) / step * step;
  return {lane, lanes, from, divide_up(other.first_out + other.out - group_.first_out - from, step) * step};
}

std::vector<InputProducts::Panel> InputProducts::find_panels() const {
  std::vector<Panel> panels;
  std::size_t at = 0;
  for (int panel = 0; panel < panels_; ++panel) {
    const int lanes = std::min(GRAD_LANES, group_.in - panel * GRAD_LANES);
    Panel next = {span_of(panel, 0, lanes), {}, at};
    for (int lane = 0; lane < lanes; lane += SPAN) {
      const Span span = span_of(panel, lane, std::min(SPAN, lanes - lane));
      const bool same =
          !next.spans.empty() && next.spans.back().first_out == span.first_out && next.spans.back().outs == span.outs;
      if (same) {
        next.spans.back().lanes += span.lanes;
      } else {
        next.spans.push_back(span);
      }
    }
    at += s.taps() * next.tap_size();
    panels.push_back(std::move(next));
  }
  return panels;
}

void InputProducts::pack_weights(int panel) const {
  const Panel& own = list_[panel];
  const int first = group_.first_in + panel * GRAD_LANES, lanes = own.all.lanes, taps = s.taps();
  const auto pack = [&](const float* proxies, std::size_t row) {
    kernels_.pack_signs(proxies, row, std::min(own.all.outs, group_.out - own.all.first_out), lanes, taps,
                        right_.at(own.at), own.tap_size(), own.all.outs);
  };
  if (group_.parts.size() == 1) {
    const GradPart& part = group_.parts[0];
    return pack(part.weight + (first - part.first_in) * taps, static_cast<std::size_t>(part.in) * taps);
  }

  const std::size_t row = static_cast<std::size_t>(lanes) * taps;
  std::vector<float> proxies(own.all.outs * row);
  for (const GradPart& part : group_.parts) {
    const int from = std::max(first, part.first_in), to = std::min(first + lanes, part.first_in + part.in);
    if (from >= to) continue;
    const float* source = part.weight + (from - part.first_in) * taps;
    float* target = proxies.data() + (part.first_out - group_.first_out - own.all.first_out) * row;
    for (int o = 0; o < part.out; ++o, source += static_cast<std::size_t>(part.in) * taps, target += row) {
      std::copy_n(source, (to - from) * taps, target + (from - first) * taps);
    }
  }
  pack(proxies.data(), row);
  clear_others(panel);
}

// Signs between channels of different groups become zeros.
void InputProducts::clear_others(int panel) const {
  const Panel& own = list_[panel];
  const int packed = kernels_.packed, first = group_.first_in + panel * GRAD_LANES;
  const int bits = static_cast<int>(8 * right_.bytes());
  for (int k = 0; k < own.all.outs; k += packed) {
    std::uint32_t kept[GRAD_LANES] = {};  // of a row of dwords
    for (int j = 0; j < packed && own.all.first_out + k + j < group_.out; ++j) {
      const GradPart& part = group_.part_of(own.all.first_out + k + j);
      const int from = std::max(0, part.first_in - first), to = std::min(GRAD_LANES, part.first_in + part.in - first);
      const std::uint32_t element = ~std::uint32_t{0} >> (32 - bits) << bits * j;
      for (int lane = from; lane < to; ++lane) kept[lane] |= element;
    }
    for (int tap = 0; tap < s.taps(); ++tap) {
      void* row = right_.at(own.at + tap * own.tap_size() + static_cast<std::size_t>(k) * GRAD_LANES);
      std::uint32_t dwords[GRAD_LANES];
      std::memcpy(dwords, row, sizeof dwords);
      for (int lane = 0; lane < GRAD_LANES; ++lane) dwords[lane] &= kept[lane];
      std::memcpy(row, dwords, sizeof dwords);
    }
  }
}

void InputProducts::run(const Slice& slice, int task) {
  const int y = task % s.h, panel = task / s.h * BLOCK_PANELS;
  task_scratch.restart();
  auto* sums = task_scratch.take<float>(BLOCK_PANELS * PRODUCT_SIZE);
  kernels_.begin();
  for (int phase = 0; phase < phases(); ++phase) run_phase(slice, y, phase, panel, sums);
  kernels_.end();
}

void InputProducts::run_phase(const Slice& slice, int y, int phase, int panel, float* sums) const {
  const int ns = slice.images;
  std::vector<std::size_t> left_row;
  std::vector<int> taps;
  for (const GradTap& ty : row_taps(y)) {
    for (const GradTap& tx : column_taps(phase)) {
      left_row.push_back((static_cast<std::size_t>(ty.shift + y / s.sh) * columns_ + tx.shift - first_column_) * ns);
      taps.push_back(ty.k * s.kw + tx.k);
    }
  }
  if (taps.empty()) {
    if (panel == 0) leave(slice.first, ns, y, phase);
    return;
  }

  const int last = std::min(panel + BLOCK_PANELS, panels_), xs = columns_of(phase), block = BLOCK_ROWS / ns;
  std::vector<std::size_t> right_at(taps.size());
  GradProduct product = {};
  product.left_row = left_row.data();
  product.right_at = right_at.data();
  product.left_stride = left_.stride();
  product.segments = static_cast<int>(taps.size());
  product.steps = slice.rounding.image_sizes();
  for (int x = 0; x < xs; x += block) {
    GradScatter scatter = scatter_from(slice.first, ns, y, phase, x, panel, BLOCK_PANELS);
    scatter.sums = sums;
    scatter.product_size = PRODUCT_SIZE;
    scatter.xs = std::min(block, xs - x);
    product.rows = scatter.xs * ns;
    for (int p = panel; p < last; ++p) {
      const Panel& own = list_[p];
      product.right = right_.at(own.at);
      for (const Span& span : own.spans) {
        const int element = (span.first_out - own.all.first_out) * GRAD_LANES + span.lane * kernels_.packed;
        for (std::size_t k = 0; k < taps.size(); ++k) right_at[k] = taps[k] * own.tap_size() + element;
        product.left = left_.at(static_cast<std::size_t>(x) * ns, span.first_out);
        product.depth = span.outs;
        product.lanes = span.lanes;
        product.out = sums + (p - panel) * PRODUCT_SIZE + span.lane;
        kernels_.product(product);
      }
    }
    kernels_.scatter(scatter);
  }
}

}  // namespace ftbnn::training
