#include "training/weight_gradient.h"

#include <cmath>

namespace ftbnn::training {

namespace {

constexpr std::size_t PART_BYTES = 1 << 19;  // of gy, for the channels that tasks share: half of a small L2 cache

}  // namespace

WeightGradient::WeightGradient(const BatchShape& shape, const GradGroup& group, const std::uint64_t* codes,
                               bool zero_one, int slice, const GradKernels& kernels, int threads, Scratch& scratch)
    : s(shape),
      group_(group),
      kernels_(kernels),
      codes_(codes),
      zero_one_(zero_one),
      slice_(slice),
      panels_(divide_up(group.in, GRAD_LANES)),
      depth_(static_cast<int>(round_up(static_cast<std::size_t>(s.ow) * slice, kernels.depth_step))),
      phases_(std::min(s.sw, s.kw)),
      columns_(s.ow + (s.kw - 1) / s.sw),
      left_(kernels, static_cast<std::size_t>(s.oh) * group.out, depth_, scratch),
      right_(kernels, panels_ * panel_size() + slack(), scratch),
      sums_(scratch.take<float>(panels_ * taps() * tap_size())),
      rounds_(divide_up(s.oh * depth_, 2 * SLICE_POSITIONS)),
      band_(divide_up(s.oh, rounds_)) {
  right_.zero(panels_ * panel_size(), slack());
  const int parts = std::max(divide_up(TASKS_PER_THREAD * threads, panels_ * taps()),
                             static_cast<int>(divide_up(band_ * group.out * left_.row_bytes(), PART_BYTES)));
  part_rows_ = static_cast<int>(round_up(static_cast<std::size_t>(divide_up(group.out, parts)), GRAD_ROWS));
}

void WeightGradient::run(const Slice& slice, int round, int task) {
  const int tap = task % taps(), panel = task / taps() % panels_, first = task / taps() / panels_ * part_rows_;
  const int ky = tap / s.kw, kx = tap % s.kw;
  std::vector<std::size_t> left_row, right_at;
  for (int oy = round * band_; oy < std::min(s.oh, (round + 1) * band_); ++oy) {
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
  product.left_sums = left_.sums(0);
  product.steps = slice.rounding.channel_sizes(group_.first_out + first);
  product.segments = static_cast<int>(left_row.size());
  product.depth = depth_;
  product.rows = std::min(part_rows_, group_.out - first);
  product.lanes = std::min(GRAD_LANES, group_.in - panel * GRAD_LANES);
  product.out = sums_ + (panel * taps() + tap) * tap_size() + static_cast<std::size_t>(first) * GRAD_LANES;
  product.adds = slice.first > 0 || round > 0;
  kernels_.begin();
  kernels_.product(product);
  kernels_.end();
}

void WeightGradient::finish(float bound, int task) const {
  const int panel = task % panels_, first = task / panels_ * GRAD_ROWS;
  float gathered[GRAD_LANES * GRAD_TAPS];
  for (int o = first; o < std::min(first + GRAD_ROWS, group_.out); ++o) {
    const GradPart& part = group_.part_of(o);  // several are of one panel, and one alone begins with its group
    const int skipped = part.first_in - group_.first_in, in_part = panel * GRAD_LANES;
    const int lanes = std::min(GRAD_LANES, part.in - in_part), size = lanes * taps();
    const float* sum = sums_ + panel * taps() * tap_size() + static_cast<std::size_t>(o) * GRAD_LANES + skipped;
    for (int tap = 0; tap < taps(); ++tap, sum += tap_size()) {
      __builtin_prefetch(sum + taps() * tap_size());
      __builtin_prefetch(sum + taps() * tap_size() + 16);
      for (int lane = 0; lane < lanes; ++lane) gathered[lane * taps() + tap] = sum[lane];
    }
    const std::size_t row = static_cast<std::size_t>(group_.first_out + o - part.first_out);
    const std::size_t at = (row * part.in + in_part) * taps();
    const float* proxy = part.weight + at;
    float* grad = part.grad + at;
    for (int k = 0; k < size; k += 16) {
      __builtin_prefetch(proxy + size + k);
      __builtin_prefetch(grad + size + k, 1);
    }
    for (int k = 0; k < size; ++k) {
      const float value = gathered[k];
      grad[k] = std::fabs(proxy[k]) <= bound ? value : 0.0F;
    }
  }
}

void WeightGradient::pack_gy(const Slice& slice, int y) {
  const int oh = s.oh, ow = s.ow;
  std::vector<const float*> from(static_cast<std::size_t>(ow) * slice_);
  for (int x = 0; x < ow; ++x) {
    for (int n = 0; n < slice.images; ++n) {
      from[x * slice_ + n] = slice.gy + ((static_cast<std::size_t>(n) * oh + y) * ow + x) * s.out + group_.first_out;
    }
  }
  kernels_.pack_columns(
      from.data(), ow * slice_, group_.out,
      left_.rows(static_cast<std::size_t>(y) * group_.out, slice.rounding.channel_rates(group_.first_out)));
}

void WeightGradient::pack_codes(const Slice& slice, int y) {
  const int words = divide_up(s.in, 64);
  std::vector<const std::uint64_t*> from(static_cast<std::size_t>(phases_) * columns_ * slice_);
  const std::uint64_t** at = from.data();
  for (int phase = 0; phase < phases_; ++phase) {
    for (int column = 0; column < columns_; ++column, at += slice_) {
      const int x = column * s.sw + phase - s.pw;
      if (x < 0 || x >= s.w) continue;
      for (int n = 0; n < slice.images; ++n) {
        at[n] = codes_ + ((static_cast<std::size_t>(slice.first + n) * s.h + y) * s.w + x) * words;
      }
    }
  }
  for (int panel = 0; panel < panels_; ++panel) {
    kernels_.pack_codes(from.data(), static_cast<int>(from.size()), group_.first_in + panel * GRAD_LANES, words,
                        zero_one_, right_.at(panel * panel_size() + y * phases_ * line_size()));
  }
}

}  // namespace ftbnn::training
