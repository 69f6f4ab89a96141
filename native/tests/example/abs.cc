// abs: an operator that only builds for tests have, to show what one takes (tests/unit/test_extending.py).
#include <cmath>

#include "engine/image.h"
#include "engine/operators/operator.h"

namespace ftbnn {

namespace {

class AbsStep final : public Step {
 public:
  using Step::Step;

  bool declare(Forms& forms) override {
    forms.read_real(op_.inputs[0]);
    forms.read_real(op_.output);
    return true;
  }

  void run(Image& image) const override {
    image.clear_border(op_.output);
    for (int y = 0; y < in().h; ++y) {
      const float* from = image.real(op_.inputs[0], y, 0);
      float* to = image.real(op_.output, y, 0);
      for (std::size_t k = 0; k < z(in().w) * z(in().c); ++k) to[k] = std::fabs(from[k]);
    }
    image.pack_all(op_.output);
  }
};

void read(Fields& fields) {
  const Shape &in = fields.in(), &out = fields.out();
  fields.check(in.c == out.c && in.h == out.h && in.w == out.w, "abs changes the shape");
}

std::unique_ptr<Step> plan(const Operator& op, const Planning& planning) {
  return std::make_unique<AbsStep>(op, planning);
}

}  // namespace

extern const OperatorKind abs_kind;
const OperatorKind abs_kind = {200, "abs", 1, false, 0, read, plan};

}  // namespace ftbnn
