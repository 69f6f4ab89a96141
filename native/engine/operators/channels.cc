// channels: output channel c is input channel map[c]. Not carried out where its readers can take runs of the input.
#include "engine/image.h"
#include "engine/operators/operator.h"

namespace ftbnn {

namespace {

class ChannelsStep final : public Step {
 public:
  ChannelsStep(const Operator& op, const Planning& planning) : Step(op, planning) {
    planning.forms.set_map(op.output, op.map, op.inputs[0]);
    is_carried_out_ = planning.forms.source(op.output).value == op.output;
  }

  // Where it is a source's, its readers read that.
  bool reads_real() const override { return is_carried_out_; }

  bool declare(Forms& forms) override {
    if (!forms.is_read(op_.output)) return false;
    forms.read_real(op_.inputs[0]);
    forms.write(op_.output);
    return true;
  }

  Sizes sizes() const override { return {z(out().c) * sizeof(Run), 0, 0}; }

  void prepare(const Forms&) override {
    for (int c = 0; c < out().c; ++c) {
      if (!runs_.empty() && runs_.back().first + runs_.back().count == op_.map[c]) {
        ++runs_.back().count;
      } else {
        runs_.push_back({op_.map[c], 1});
      }
    }
  }

  void run(Image& image) const override {
    image.clear_border(op_.output);
    image.for_rows(out().h, [&](int first, int last, int) {
      for (int y = first; y < last; ++y) copy_row(image, y);
      image.pack(op_.output, first, last);
    });
  }

 private:
  void copy_row(const Image& image, int y) const {
    float* to = image.real(op_.output, y, 0);
    for (int x = 0; x < out().w; ++x) {
      const float* from = image.real(op_.inputs[0], y, x);
      for (const Run& run : runs_) to = std::copy_n(from + run.first, run.count, to);
    }
  }

  bool is_carried_out_ = false;
  std::vector<Run> runs_;
};

void read(Fields& fields) {
  Operator& op = fields.op();
  fields.check(fields.keeps_size(), "a channel map changes the size");
  const int channels = fields.in().c;
  op.map = fields.blob<std::int32_t>(static_cast<std::uint64_t>(fields.out().c), "map");
  fields.check(std::all_of(op.map, op.map + fields.out().c, [&](std::int32_t c) { return c >= 0 && c < channels; }),
               "the map points outside the channels");
}

std::unique_ptr<Step> plan(const Operator& op, const Planning& planning) {
  return std::make_unique<ChannelsStep>(op, planning);
}

}  // namespace

extern const OperatorKind channels_kind;
const OperatorKind channels_kind = {8, "channels", 1, false, 0, read, plan};

}  // namespace ftbnn
