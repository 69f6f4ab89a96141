// combine: the product or sum of two values, the second of which may have one channel or one position for all.
#include "engine/image.h"
#include "engine/operators/operator.h"

namespace ftbnn {

namespace {

template <typename Do>
void rows(Image& image, const Operator& op, const Shape& out, const Shape& second, const Do& join) {
  image.for_rows(out.h, [&](int first, int last, int) {
    for (int y = first; y < last; ++y) {
      for (int x = 0; x < out.w; ++x) {
        const float* a = image.real(op.inputs[0], y, x);
        const float* b = image.real(op.inputs[1], second.h == 1 ? 0 : y, second.w == 1 ? 0 : x);
        float* to = image.real(op.output, y, x);
        if (second.c == 1) {
          const float of_all = b[0];
          for (int c = 0; c < out.c; ++c) to[c] = join(a[c], of_all);
        } else {
          for (int c = 0; c < out.c; ++c) to[c] = join(a[c], b[c]);
        }
      }
      image.pack(op.output, y, y + 1);
    }
  });
}

class CombineStep final : public Step {
 public:
  using Step::Step;

  bool declare(Forms& forms) override {
    for (const int input : op_.inputs) forms.read_real(input);
    forms.read_real(op_.output);
    return true;
  }

  void run(Image& image) const override {
    image.clear_border(op_.output);
    const Shape& second = shape(op_.inputs[1]);
    if (op_.is_sum) {
      rows(image, op_, out(), second, [](float a, float b) { return a + b; });
    } else {
      rows(image, op_, out(), second, [](float a, float b) { return a * b; });
    }
  }
};

void read(Fields& fields) {
  fields.check(fields.op().inputs.size() == 2, "combine has another number of inputs than 2");
  fields.check(fields.keeps_channels() && fields.keeps_size(), "combine changes the shape");
  const Shape &out = fields.out(), &second = fields.of(fields.op().inputs[1]);
  const bool fits = (second.c == out.c || second.c == 1) &&
                    ((second.h == out.h && second.w == out.w) || (second.h == 1 && second.w == 1));
  fields.check(fits, "the second value of combine does not fit the first");
  fields.op().is_sum = fields.flags("how", 1) == 1;
}

std::unique_ptr<Step> plan(const Operator& op, const Planning& planning) {
  return std::make_unique<CombineStep>(op, planning);
}

}  // namespace

extern const OperatorKind combine_kind;
const OperatorKind combine_kind = {13, "combine", 4, true, 0, read, plan};

}  // namespace ftbnn
