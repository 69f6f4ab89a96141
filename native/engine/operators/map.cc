// map: a constant factor for each position, the same for all channels.
#include "engine/image.h"
#include "engine/operators/operator.h"

namespace ftbnn {

namespace {

class MapStep final : public Step {
 public:
  MapStep(const Operator& op, const Planning& planning)
      : Step(op, planning), factors_(op.weights, op.weights + z(out().h) * z(out().w)) {}

  bool declare(Forms& forms) override {
    forms.read_real(op_.inputs[0]);
    forms.read_real(op_.output);
    return true;
  }

  void run(Image& image) const override {
    image.clear_border(op_.output);
    image.for_rows(out().h, [&](int first, int last, int) {
      for (int y = first; y < last; ++y) {
        for (int x = 0; x < out().w; ++x) {
          const float* from = image.real(op_.inputs[0], y, x);
          float* to = image.real(op_.output, y, x);
          const float factor = factors_[z(y) * z(out().w) + z(x)];
          for (int c = 0; c < out().c; ++c) to[c] = factor * from[c];
        }
        image.pack(op_.output, y, y + 1);
      }
    });
  }

 private:
  const std::vector<float> factors_;  // the file's bytes are not kept
};

void read(Fields& fields) {
  fields.check(fields.keeps_channels() && fields.keeps_size(), "a map changes the shape");
  const Shape& out = fields.out();
  fields.op().weights = fields.floats(static_cast<std::uint64_t>(out.h) * static_cast<std::uint64_t>(out.w), "factor");
  fields.op().weight_bytes = sizeof(float) * static_cast<std::uint64_t>(out.h) * static_cast<std::uint64_t>(out.w);
}

std::unique_ptr<Step> plan(const Operator& op, const Planning& planning) {
  return std::make_unique<MapStep>(op, planning);
}

}  // namespace

extern const OperatorKind map_kind;
const OperatorKind map_kind = {14, "map", 4, false, 32, read, plan};

}  // namespace ftbnn
