// average-to: PyTorch's adaptive average.
#include "engine/image.h"
#include "engine/operators/operator.h"

namespace ftbnn {

namespace {

class AverageStep final : public Step {
 public:
  using Step::Step;

  bool declare(Forms& forms) override {
    forms.read_real(op_.inputs[0]);
    forms.read_real(op_.output);
    return true;
  }

  std::uint64_t operations() const override {
    const auto longest = [](int in, int out) { return static_cast<std::uint64_t>((in + out - 1) / out + 1); };
    return out().elements() * longest(in().h, out().h) * longest(in().w, out().w);
  }

  void run(Image& image) const override {
    image.clear_border(op_.output);
    for (int y = 0; y < out().h; ++y) {
      const int top = y * in().h / out().h, bottom = ((y + 1) * in().h + out().h - 1) / out().h;
      for (int x = 0; x < out().w; ++x) {
        const int first = x * in().w / out().w, last = ((x + 1) * in().w + out().w - 1) / out().w;
        PoolRow row{};
        row.in = image.real(op_.inputs[0], top, first);
        row.row_stride = image.forms().real(op_.inputs[0]).row();
        row.in_stride = z(in().c);
        row.rows = bottom - top;
        row.kw = row.columns = last - first;
        row.width = row.stride = 1;
        row.channels = out().c;
        row.out = image.real(op_.output, y, x);
        image.between().average_pool_row(row);
      }
    }
    image.pack_all(op_.output);
  }
};

void read(Fields& fields) { fields.check(fields.keeps_channels(), "an average changes the number of channels"); }

std::unique_ptr<Step> plan(const Operator& op, const Planning& planning) {
  return std::make_unique<AverageStep>(op, planning);
}

}  // namespace

extern const OperatorKind average_to_kind;
const OperatorKind average_to_kind = {6, "average-to", 1, false, 0, read, plan};

}  // namespace ftbnn
