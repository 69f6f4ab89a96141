// max-pool and avg-pool.
#pragma once

#include "engine/image.h"
#include "engine/operators/operator.h"

namespace ftbnn {

class PoolStep final : public Step {
 public:
  PoolStep(const Operator& op, const Planning& planning, bool is_max)
      : Step(op, planning), is_max_(is_max), source_(planning.forms.source(op.inputs[0])) {}

  bool declare(Forms& forms) override;
  void run(Image& image) const override;

  // Row `y`, of an input whose row `first_row` starts at `in`, with so many floats a row.
  void pool_row(Image& image, int y, const float* in, int first_row, std::size_t row_stride) const;

 private:
  bool is_max_;
  const Source& source_;
};

}  // namespace ftbnn
