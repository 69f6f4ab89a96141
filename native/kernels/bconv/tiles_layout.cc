#include "kernels/bconv/tiles_layout.h"

#include <algorithm>

#include "base/aligned.h"

namespace ftbnn {

namespace {

constexpr std::size_t REST_STORE = 2;  // cycles: it crosses a cache line, where a line takes one

}  // namespace

// A stride past the image's end leads to one output row (or column) all the same.
ByteLayout::ByteLayout(const BConvShape& s, int channels)
    : channels_(channels),
      kh_(s.kh),
      kw_(s.kw),
      stride_y_(std::min(s.sh, s.rows())),
      stride_x_(std::min(s.sw, s.columns())),
      plane_rows_(z((s.rows() + stride_y_ - 1) / stride_y_)),
      plane_columns_(z((s.columns() + stride_x_ - 1) / stride_x_)),
      lines_(static_cast<int>(words_of(channels))),
      rest_(0),
      stack_(1) {
  // Groups with the same channels in are laid out alike, even if the last has more out: they may share their bytes.
  const std::size_t halves = tile_halves(s.outs().size(0));
  for (const int stack : {1, kh_}) {
    ByteLayout other = *this;
    other.lines_ = channels / static_cast<int>(LINE);
    other.rest_ = channels % static_cast<int>(LINE);
    other.stack_ = stack;
    if (other.rest_ > 0 && other.cost(halves) < cost(halves)) *this = other;
  }
}

// Cycles an output position: a product of 16 positions takes 16, and all that is not the same for every layout is
// stored before products begin.
std::size_t ByteLayout::cost(std::size_t halves) const {
  const std::size_t rows = rest_ > 0 && stack_ > 1 ? z(kh_) : z(stride_y_);  // of positions, to one of output
  return halves * step_count() + rows * z(stride_x_) * (rest_ > 0 ? REST_STORE : 1);
}

std::size_t ByteLayout::bytes() const {
  const std::size_t rest_planes = stack_ > 1 ? z(stride_x_) * phase() : planes();
  return round_up(
      z(lines_) * planes() * LINE + rest_planes * pitch() + SPARE_POSITIONS * std::max(LINE, pitch()) + LINE,
      CACHE_LINE);
}

// Of the runs of a window's row that lie in planes of columns before this phase: kw % stride_x of them have a tap more.
std::size_t ByteLayout::steps_before(int phase) const {
  const int taps = kw_ / stride_x_, longer = kw_ % stride_x_;
  return z(std::min(phase, longer)) * run_steps(taps + 1) + z(std::max(0, phase - longer)) * run_steps(taps);
}

std::size_t ByteLayout::step_count() const {
  return z(kh_) * z(kw_) * z(lines_) + z(kh_ / stack_) * steps_before(stride_x_);
}

std::vector<TileStep> ByteLayout::steps() const {
  std::vector<TileStep> steps;
  for (int t = 0; t < kh_ * kw_; ++t) {
    for (int k = 0; k < lines_; ++k) {
      steps.push_back({(z(k) * planes() + at(t / kw_, t % kw_)) * LINE, LINE, LINE});
    }
  }
  for (int ky = 0; ky < kh_ && rest_ > 0; ky += stack_) {
    for (int kx = 0; kx < std::min(kw_, stride_x_); ++kx) {
      const std::size_t run = z((kw_ - kx + stride_x_ - 1) / stride_x_) * pitch();
      for (std::size_t done = 0; done < run; done += LINE) {
        steps.push_back({rest_at(0) + at(ky, kx) * pitch() + done, static_cast<std::uint32_t>(pitch()),
                         static_cast<std::uint32_t>(std::min(LINE, run - done))});
      }
    }
  }
  return steps;
}

std::size_t ByteLayout::weight_bit(int tap, int word) const {
  if (word < lines_) return (z(tap) * z(lines_) + z(word)) * LINE;
  const int ky = tap / kw_, kx = tap % kw_;
  const std::size_t run =
      z(kh_ * kw_) * z(lines_) + z(ky / stack_) * steps_before(stride_x_) + steps_before(kx % stride_x_);
  return run * LINE + z(kx / stride_x_ * stack_ + ky % stack_) * z(rest_);
}

}  // namespace ftbnn
