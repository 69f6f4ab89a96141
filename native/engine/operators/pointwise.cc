// pointwise: an epilogue alone.
#include "engine/operators/fused.h"

namespace ftbnn {

namespace {

class PointwiseStep final : public FusedStep {
 public:
  PointwiseStep(const Operator& op, const Planning& planning)
      : FusedStep(op, planning, {planning.model.values[z(op.output)].c, 1}) {}

  bool declare(Forms& forms) override {
    FusedStep::declare(forms);
    forms.read_real(op_.inputs[0]);
    return true;
  }

  void run(Image& image) const override {
    image.clear_border(op_.output);
    image.for_rows(out().h, [&](int first, int last, int) {
      for (int y = first; y < last; ++y) {
        for (int k = 0; k < panels(); ++k) {
          const float* in = image.real(op_.inputs[0], y, 0) + panel(k).first;
          image.between().pointwise_row({in, z(out().c), out().w, panel(k).channels, epilogue(image, k, y)});
        }
      }
    });
    finish(image);
  }
};

void read(Fields& fields) {
  fields.check(fields.keeps_channels() && fields.keeps_size(), "a pointwise operator changes the shape");
  fields.epilogue();
}

std::unique_ptr<Step> plan(const Operator& op, const Planning& planning) {
  return std::make_unique<PointwiseStep>(op, planning);
}

}  // namespace

extern const OperatorKind pointwise_kind;
const OperatorKind pointwise_kind = {9, "pointwise", 1, false, 0, read, plan};

}  // namespace ftbnn
