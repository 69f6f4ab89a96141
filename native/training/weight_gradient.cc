#include "training/weight_gradient.h"

#include <cmath>

#include "training/weight_look_ups.h"
#include "training/weight_products.h"

namespace ftbnn::training {

WeightGradient::WeightGradient(const BatchShape& shape, const GradGroup& group, const std::uint64_t* codes,
                               bool zero_one, int slice, const GradKernels& kernels, int depth, Scratch& scratch)
    : s(shape),
      group_(group),
      kernels_(kernels),
      codes_(codes),
      zero_one_(zero_one),
      slice_(slice),
      panels_(divide_up(group.in, GRAD_LANES)),
      left_(kernels, static_cast<std::size_t>(s.oh) * group.out, depth, scratch),
      sums_(scratch.take<float>(panels_ * taps() * tap_size())),
      rounds_(divide_up(s.oh * s.ow * slice, 2 * SLICE_POSITIONS)),
      band_(divide_up(s.oh, rounds_)) {}

void WeightGradient::finish(float bound, int task) const {
  const int panel = task % panels_, first = task / panels_ * GRAD_ROWS;
  float gathered[GRAD_LANES * GRAD_TAPS];
  for (int o = first; o < std::min(first + GRAD_ROWS, group_.out); ++o) {
    const GradPart& part = group_.part_of(o);  // several are of one panel, and one alone begins with its group
    const int skipped = part.first_in - group_.first_in, in_part = panel * GRAD_LANES;
    const int lanes = std::min(GRAD_LANES, part.in - in_part), size = lanes * taps();
    const float* sum = sums(panel, 0, o) + skipped;
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

void WeightGradient::find_codes(const Slice& slice, int y, int x, const std::uint64_t** to) const {
  if (x < 0 || x >= s.w) {
    std::fill_n(to, slice.images, nullptr);
    return;
  }
  const std::size_t words = divide_up(s.in, 64), image = static_cast<std::size_t>(s.h) * s.w * words;
  const std::uint64_t* at = codes_ + slice.first * image + (static_cast<std::size_t>(y) * s.w + x) * words;
  for (int n = 0; n < slice.images; ++n, at += image) to[n] = at;
}

std::vector<std::unique_ptr<WeightGradient>> weight_gradients(const BatchShape& shape,
                                                              const std::vector<GradPart>& parts,
                                                              const std::uint64_t* codes, bool zero_one, int slice,
                                                              const GradKernels& kernels, int threads,
                                                              Scratch& scratch) {
  constexpr int least = 9 * 64;  // as fast with so many, slower with fewer (Zen 5)
  const bool by_look_up = are_looked_up(shape, parts.front(), kernels, least);
  std::vector<std::unique_ptr<WeightGradient>> made;
  for (const GradGroup& group : grad_groups(parts, by_look_up ? 0 : GRAD_LANES)) {
    if (by_look_up) {
      made.push_back(std::make_unique<WeightLookUps>(shape, group, codes, zero_one, slice, kernels, scratch));
    } else {
      made.push_back(std::make_unique<WeightProducts>(shape, group, codes, zero_one, slice, kernels, threads, scratch));
    }
  }
  return made;
}

}  // namespace ftbnn::training
