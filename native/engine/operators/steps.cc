// steps: output is the number of thresholds that the input is greater than.
#include <algorithm>

#include "engine/image.h"
#include "engine/operators/operator.h"

namespace ftbnn {

namespace {

class StepsStep final : public Step {
 public:
  using Step::Step;

  bool declare(Forms& forms) override {
    forms.read_real(op_.inputs[0]);
    forms.write(op_.output);
    return true;
  }

  Sizes sizes() const override { return {z(op_.step_rows) * z(op_.step_count) * sizeof(float), 0, 0}; }
  void prepare(const Forms&) override {
    thresholds_.assign(op_.steps, op_.steps + z(op_.step_rows) * z(op_.step_count));
  }

  void run(Image& image) const override {
    image.clear_border(op_.output);
    image.for_rows(out().h, [&](int first, int last, int) {
      for (int y = first; y < last; ++y) {
        for (int x = 0; x < out().w; ++x) {
          const float* from = image.real(op_.inputs[0], y, x);
          float* to = image.real(op_.output, y, x);
          for (int c = 0; c < out().c; ++c) to[c] = static_cast<float>(passed(c, from[c]));
        }
        image.pack(op_.output, y, y + 1);
      }
    });
  }

 private:
  std::ptrdiff_t passed(int channel, float x) const {
    const float* first = thresholds_.data() + (op_.step_rows == 1 ? 0 : z(channel) * z(op_.step_count));
    return std::lower_bound(first, first + op_.step_count, x) - first;  // the first that x is not greater than
  }

  std::vector<float> thresholds_;
};

void read(Fields& fields) {
  Operator& op = fields.op();
  fields.check(fields.keeps_channels() && fields.keeps_size(), "steps change the shape");
  op.step_count = fields.number("number of steps", 1, 1U << 16U);
  op.step_rows = fields.number("rows of thresholds", 1, static_cast<std::uint32_t>(fields.in().c));
  fields.check(op.step_rows == 1 || op.step_rows == fields.in().c, "thresholds are one row, or one for each channel");
  const auto count = static_cast<std::uint64_t>(op.step_count), rows = static_cast<std::uint64_t>(op.step_rows);
  op.steps = fields.floats(rows * count, "thresholds");
  for (std::uint64_t row = 0; row < rows; ++row) {
    fields.check(std::is_sorted(op.steps + row * count, op.steps + (row + 1) * count), "thresholds do not rise");
  }
}

std::unique_ptr<Step> plan(const Operator& op, const Planning& planning) {
  return std::make_unique<StepsStep>(op, planning);
}

}  // namespace

extern const OperatorKind steps_kind;
const OperatorKind steps_kind = {12, "steps", 4, false, 0, read, plan};

}  // namespace ftbnn
