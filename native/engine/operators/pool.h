// max-pool and avg-pool.
#pragma once

#include <functional>

#include "engine/image.h"
#include "engine/operators/operator.h"

namespace ftbnn {

class PoolStep final : public Step {
 public:
  PoolStep(const Operator& op, const Planning& planning, bool is_max)
      : Step(op, planning), is_max_(is_max), source_(planning.forms.source(op.inputs[0])) {}

  bool declare(Forms& forms) override;
  std::uint64_t operations() const override {
    return out().elements() * static_cast<std::uint64_t>(op_.window.kh) * static_cast<std::uint64_t>(op_.window.kw);
  }
  void run(Image& image) const override;

  // For a step that makes the input and does the pool's work too: some rows of the input at a time, in memory that
  // stays in the cache. `together`: rows of the input that the step makes together, counted from the first.
  bool plan_bands(int together);
  std::size_t band_bytes() const { return round_up(band_floats_ * sizeof(float), CACHE_LINE); }
  bool covers_input() const;  // whether every row of the input is made
  // make(first, own, last, to, worker): rows [first, last) of the input, of which another piece makes those before
  // `own` too; before those of a piece, prepare(first, last, worker) of all of them. By reference (std::ref), so that
  // nothing is allocated.
  using PrepareRows = std::function<void(int first, int last, int worker)>;
  using MakeRows = std::function<void(int first, int own, int last, float* to, int worker)>;
  void run_in_bands(Image& image, const PrepareRows& prepare, const MakeRows& make) const;

 private:
  // Row `y`, of an input whose row `first_row` starts at `in`, with so many floats a row.
  void pool_row(Image& image, int y, const float* in, int first_row, std::size_t row_stride) const;
  std::size_t line() const { return z(shape(source_.value).w) * z(shape(source_.value).c); }
  // The rows of the input that row y needs, [top, bottom).
  int top(int y) const { return std::max(y * op_.window.sh - op_.window.ph, 0); }
  int bottom(int y) const { return std::min(y * op_.window.sh - op_.window.ph + op_.window.kh, in().h); }
  int end_of_band(int y, int most) const;

  bool is_max_;
  const Source& source_;
  int band_ = 1, together_ = 1;  // rows that are made at a time; rows of the input
  std::size_t band_floats_ = 0;
};

}  // namespace ftbnn
