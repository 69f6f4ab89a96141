// concat: channels of all inputs, one after the other.
#include "engine/image.h"
#include "engine/operators/operator.h"

namespace ftbnn {

namespace {

class ConcatStep final : public Step {
 public:
  using Step::Step;

  bool declare(Forms& forms) override {
    for (const int input : op_.inputs) forms.read_real(input);
    forms.read_real(op_.output);
    return true;
  }

  void run(Image& image) const override {
    image.clear_border(op_.output);
    image.for_rows(out().h, [&](int first, int last, int) {
      for (int y = first; y < last; ++y) {
        for (int x = 0; x < out().w; ++x) {
          float* to = image.real(op_.output, y, x);
          for (const int input : op_.inputs) to = std::copy_n(image.real(input, y, x), shape(input).c, to);
        }
        image.pack(op_.output, y, y + 1);
      }
    });
  }
};

void read(Fields& fields) {
  std::uint64_t channels = 0;
  for (const int input : fields.op().inputs) {
    const Shape& in = fields.of(input);
    fields.check(in.h == fields.out().h && in.w == fields.out().w, "concat of different sizes");
    channels += static_cast<std::uint64_t>(in.c);
  }
  fields.check(channels == static_cast<std::uint64_t>(fields.out().c), "the channels do not add up");
}

std::unique_ptr<Step> plan(const Operator& op, const Planning& planning) {
  return std::make_unique<ConcatStep>(op, planning);
}

}  // namespace

extern const OperatorKind concat_kind;
const OperatorKind concat_kind = {7, "concat", 1, true, 0, read, plan};

}  // namespace ftbnn
