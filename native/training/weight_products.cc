#include "training/weight_products.h"

namespace ftbnn::training {

namespace {

constexpr std::size_t PART_BYTES = 1 << 19;  // of gy, for the channels that tasks share: half of a small L2 cache

int depth_of(const BatchShape& s, int slice, const GradKernels& kernels) {
  return static_cast<int>(round_up(static_cast<std::size_t>(s.ow) * slice, kernels.depth_step));
}

}  // namespace

WeightProducts::WeightProducts(const BatchShape& shape, const GradGroup& group, const std::uint64_t* codes,
                               bool zero_one, int slice, const GradKernels& kernels, int threads, Scratch& scratch)
    : WeightGradient(shape, group, codes, zero_one, slice, kernels, depth_of(shape, slice, kernels), scratch),
      depth_(depth_of(shape, slice, kernels)),
      phases_(std::min(s.sw, s.kw)),
      columns_(s.ow + (s.kw - 1) / s.sw),
      right_(kernels, panels_ * panel_size() + slack(), scratch) {
  right_.fill(panels_ * panel_size(), slack(), 0);
  const int parts = std::max(divide_up(TASKS_PER_THREAD * threads, panels_ * taps()),
                             static_cast<int>(divide_up(band_ * group.out * left_.row_bytes(), PART_BYTES)));
  part_rows_ = static_cast<int>(round_up(static_cast<std::size_t>(divide_up(group.out, parts)), GRAD_ROWS));
}

void WeightProducts::run(const Slice& slice, int round, int task) {
  const int tap = task % taps(), panel = task / taps() % panels_, first = task / taps() / panels_ * part_rows_;
  const int ky = tap / s.kw, kx = tap % s.kw;
  std::vector<std::size_t> left_row, right_at;
  for (int oy = first_row(round); oy < last_row(round); ++oy) {
    const int y = oy * s.sh + ky - s.ph;
    if (y < 0 || y >= s.h) continue;
    left_row.push_back(static_cast<std::size_t>(oy) * group_.out + first);
    right_at.push_back((y * phases_ + kx % s.sw) * line_size() + kx / s.sw * column_size());
  }
  GradProduct product = {};
  product.left = left_.at(0);
  product.right = right_.at(panel * panel_size());
  product.left_row = left_row.data();
  product.right_at = right_at.data();
  product.left_stride = left_.stride();
  product.steps = slice.rounding.channel_sizes(group_.first_out + first);
  product.segments = static_cast<int>(left_row.size());
  product.depth = depth_;
  product.rows = std::min(part_rows_, group_.out - first);
  product.lanes = std::min(GRAD_LANES, group_.in - panel * GRAD_LANES);
  product.out = sums(panel, tap, first);
  product.adds = slice.first > 0 || round > 0;
  kernels_.begin();
  kernels_.product(product);
  kernels_.end();
}

void WeightProducts::pack_codes(const Slice& slice, int y) {
  const int words = divide_up(s.in, 64);
  std::vector<const std::uint64_t*> from(static_cast<std::size_t>(phases_) * columns_ * slice_);
  const std::uint64_t** at = from.data();
  for (int phase = 0; phase < phases_; ++phase) {
    for (int column = 0; column < columns_; ++column, at += slice_) {
      find_codes(slice, y, column * s.sw + phase - s.pw, at);
    }
  }
  for (int panel = 0; panel < panels_; ++panel) {
    kernels_.pack_codes(from.data(), static_cast<int>(from.size()), group_.first_in + panel * GRAD_LANES, words,
                        zero_one_, right_.at(panel * panel_size() + y * phases_ * line_size()));
  }
}

}  // namespace ftbnn::training
