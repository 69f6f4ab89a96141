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

  // Codes with thresholds of their own.
  bool direct_codes(CodeForm& /*form*/, int number) override {
    direct_.push_back(number);
    return true;
  }

  Sizes sizes() const override {
    return {z(out().c) * sizeof(Run), 0, direct_.empty() ? 0 : z(out().w) * words(out().c) * sizeof(std::uint64_t)};
  }

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
    const bool is_kept = image.forms().real(op_.output).is_needed;
    image.for_rows(out().h, [&](int first, int last, int worker) {
      for (int y = first; y < last; ++y) {
        if (is_kept) copy_row(image, y);
        for (const int form : direct_) sign_row(image, form, y, static_cast<std::uint64_t*>(image.scratch(worker)));
      }
    });
  }

 private:
  static constexpr int WORD = 64;
  static std::size_t words(int bits) { return z((bits + WORD - 1) / WORD); }

  void copy_row(const Image& image, int y) const {
    float* to = image.real(op_.output, y, 0);
    for (int x = 0; x < out().w; ++x) {
      const float* from = image.real(op_.inputs[0], y, x);
      for (const Run& run : runs_) to = std::copy_n(from + run.first, run.count, to);
    }
  }

  // Runs of the input, each compared with its part of the thresholds; one that begins inside a word is moved there.
  void sign_row(const Image& image, int number, int y, std::uint64_t* apart) const {
    const CodeForm& form = image.forms().code(number);
    std::uint64_t* codes = image.codes(number, y, 0);
    int at = 0;
    for (const Run& run : runs_) {
      SignRow row{};
      row.in = image.real(op_.inputs[0], y, 0) + run.first;
      row.in_stride = z(in().c);
      row.threshold = form.threshold != nullptr ? form.threshold + at : nullptr;
      row.width = out().w;
      row.channels = run.count;
      row.codes = at % WORD == 0 ? codes + at / WORD : apart;
      row.codes_stride = at % WORD == 0 ? form.words() : words(run.count);
      image.between().sign_row(row);
      if (at % WORD != 0) append(apart, words(run.count), codes, form.words(), at);
      at += run.count;
    }
  }

  // Codes of every position behind the first `at` bits of theirs, of which the last word is there.
  void append(const std::uint64_t* from, std::size_t count, std::uint64_t* to, std::size_t stride, int at) const {
    const int up = at % WORD, down = WORD - up;
    const std::size_t first = z(at / WORD);
    for (int x = 0; x < out().w; ++x, from += count, to += stride) {
      for (std::size_t k = 0; k < count; ++k) {
        to[first + k] |= from[k] << up;
        if (first + k + 1 < stride) to[first + k + 1] = from[k] >> down;
      }
    }
  }

  bool is_carried_out_ = false;
  std::vector<int> direct_;
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
