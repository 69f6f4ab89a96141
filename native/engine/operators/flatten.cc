// flatten: a map as a vector, channel by channel.
#include "engine/image.h"
#include "engine/operators/operator.h"

namespace ftbnn {

namespace {

class FlattenStep final : public Step {
 public:
  using Step::Step;

  bool declare(Forms& forms) override {
    forms.read_real(op_.inputs[0]);
    forms.read_real(op_.output);
    return true;
  }

  void run(Image& image) const override {
    image.clear_border(op_.output);
    float* to = image.real(op_.output, 0, 0);
    for (int y = 0; y < in().h; ++y) {
      for (int x = 0; x < in().w; ++x) {
        const float* from = image.real(op_.inputs[0], y, x);
        for (int c = 0; c < in().c; ++c) to[(z(c) * z(in().h) + z(y)) * z(in().w) + z(x)] = from[c];
      }
    }
    image.pack_all(op_.output);
  }
};

void read(Fields& fields) {
  const Shape& out = fields.out();
  fields.check(out.h == 1 && out.w == 1 && static_cast<std::uint64_t>(out.c) == fields.in().elements(),
               "flatten changes the number of elements");
}

std::unique_ptr<Step> plan(const Operator& op, const Planning& planning) {
  return std::make_unique<FlattenStep>(op, planning);
}

}  // namespace

extern const OperatorKind flatten_kind;
const OperatorKind flatten_kind = {10, "flatten", 1, false, 0, read, plan};

}  // namespace ftbnn
