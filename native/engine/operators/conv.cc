// conv and linear: real weights; rounded conv: integers times a unit, which float kernels see as numbers.
#include "engine/operators/conv.h"

#include <algorithm>
#include <limits>

#include "base/table.h"
#include "engine/operators/pool.h"
#include "kernels/conv/conv.h"

namespace ftbnn {

namespace {

class ConvStep final : public FusedStep {
 public:
  ConvStep(const Operator& op, const Planning& planning)
      : FusedStep(op, planning, {planning.model.values[z(op.output)].c, op.groups}),
        shape_(conv_shape(op, planning.model)),
        kernels_(conv_table().best(planning.usable, [&](const ConvKernels& k) { return k.suits(shape_); }).kernels),
        stem_shape_{shape_,
                    op.weights,
                    {op.weight_bits, op.integers, op.unit},
                    op.tail.scale,
                    op.tail.shift,
                    planning.pixel_scale,
                    planning.pixel_shift},
        stem_kernels_(
            stem_table().best(planning.usable, [&](const StemKernels& k) { return k.suits(stem_shape_); }).kernels),
        has_one_reader_(planning.readers[z(op.output)] == 1),
        is_stem_(op.inputs[0] == 0 && planning.readers[0] == 1 && stem_kernels_.suits(stem_shape_)) {}

  // A pool that alone reads the output, and no map of it, is done too, a few rows at a time.
  bool absorb(Step& reader) override {
    auto* pool = dynamic_cast<PoolStep*>(&reader);
    if (pool == nullptr || has_curve() || !has_one_reader_ || pool->op().inputs[0] != op_.output) return false;
    if (!pool->plan_bands(kernels_.rows)) return false;
    pool_ = pool;
    return true;
  }

  bool declare(Forms& forms) override {
    FusedStep::declare(forms);
    if (pool_ != nullptr) {
      forms.read_real(pool_->op().output);
      forms.write(pool_->op().output);
    }
    const Border border{shape_.ph, shape_.pw, shape_.rows(), shape_.columns()};
    forms.read_real(op_.inputs[0], reads_in_place(shape_) ? border : Border{});
    return true;
  }

  std::uint64_t macs() const override { return shape_.macs(); }

  Sizes sizes() const override {
    const Sizes numbers = FusedStep::sizes(), own = kernels_.sizes(shape_);
    const Sizes stem = is_stem_ ? stem_kernels_.sizes(stem_shape_) : Sizes{};
    return {numbers.weights + own.weights + stem.weights + stem.arranged, own.arranged,
            band_bytes() + std::max(own.scratch, stem.scratch),
            op_.integers != nullptr ? weights() * sizeof(float) : 0};
  }

  void prepare(const Forms& forms) override {
    FusedStep::prepare(forms);
    const std::vector<float> numbers = op_.integers != nullptr ? numbers_of_integers() : std::vector<float>();
    StemShape shape = stem_shape_;
    if (!numbers.empty()) shape.weights = numbers.data();
    conv_ = kernels_.make(shape_, shape.weights);
    if (is_stem_) stem_ = stem_kernels_.make(shape);
  }

  const Stem* stem() const override { return stem_.get(); }

  void run(Image& image) const override {
    image.clear_border(op_.output);
    const RealImage in = input(image);
    const std::uint64_t pass = Image::new_pass();
    const auto arrange = [&](int first, int last, int worker) {
      if (!conv_->arranges() || is_integer(image)) return;
      image.arranged(pass, first, worker, [&](void* to) { conv_->arrange(first, last, in, to); });
    };
    if (pool_ != nullptr) {
      const auto make = [&](int first, int, int last, float* to, int worker) {
        convolve_band(image, in, first, last, to, worker);
      };
      return pool_->run_in_bands(image, std::ref(arrange), std::ref(make));
    }
    if (is_integer(image)) {
      image.for_rows(out().h, [&](int first, int last, int worker) {
        stem_->run({image.pixels(), first, last, scratch(image, worker), epilogue(image, 0, first)});
      });
    } else {
      image.for_panels(panels(), out().h, z(out().w) * z(out().c) * sizeof(float),
                       [&](int panel, int first, int last, int worker) {
                         arrange(first, last, worker);
                         conv_->run({in, image.arranged(worker), panel, 1, first, last, scratch(image, worker),
                                     epilogue(image, panel, first)});
                       });
    }
    finish(image);
  }

 private:
  std::uint64_t weights() const { return shape_.macs() / shape_.positions(); }

  // Each rounded as training rounds it.
  std::vector<float> numbers_of_integers() const {
    std::vector<float> numbers;
    numbers.reserve(static_cast<std::size_t>(weights()));
    for (int g = 0; g < shape_.groups; ++g) {
      const std::size_t row = z(shape_.ins().size(g)) * z(shape_.taps());
      for (int o = shape_.outs().first(g); o < shape_.outs().first(g) + shape_.outs().size(g); ++o) {
        for (std::size_t k = 0; k < row; ++k) {
          const std::size_t at = numbers.size();
          const int integer = op_.weight_bits == 8 ? static_cast<const std::int8_t*>(op_.integers)[at]
                                                   : static_cast<const std::int16_t*>(op_.integers)[at];
          numbers.push_back(static_cast<float>(integer) * op_.unit[o]);
        }
      }
    }
    return numbers;
  }

  std::size_t band_bytes() const { return pool_ != nullptr ? pool_->band_bytes() : 0; }
  void* scratch(const Image& image, int worker) const {
    return static_cast<char*>(image.scratch(worker)) + band_bytes();
  }
  bool is_integer(const Image& image) const { return stem_ != nullptr && image.has_pixels(); }

  RealImage input(const Image& image) const {
    return {image.real(op_.inputs[0], 0, 0), image.forms().real(op_.inputs[0]).row(), reads_in_place(shape_)};
  }

  void convolve_band(Image& image, const RealImage& in, int first, int last, float* to, int worker) const {
    const auto into_band = [&](int number) {
      Epilogue end = epilogue(image, number, first);
      end.out = to + panel(number).first;
      end.out_stride = z(out().c);
      end.out_row = z(out().w) * z(out().c);
      return end;
    };
    if (is_integer(image)) {
      return stem_->run({image.pixels(), first, last, scratch(image, worker), into_band(0)});
    }
    const int together = shape_.groups == 1 ? panels() : 1;
    for (int number = 0; number < panels(); number += together) {
      conv_->run(
          {in, image.arranged(worker), number, together, first, last, scratch(image, worker), into_band(number)});
    }
  }

  const ConvShape shape_;
  const ConvKernels& kernels_;
  const StemShape stem_shape_;
  const StemKernels& stem_kernels_;
  const bool has_one_reader_, is_stem_;
  const PoolStep* pool_ = nullptr;
  std::unique_ptr<Conv> conv_;
  std::unique_ptr<Stem> stem_;
};

void read_weights(Fields& fields) {
  Operator& op = fields.op();
  const std::uint64_t count = weight_count(op, fields.in(), fields.out());
  op.weights = fields.floats(count, "weights");
  op.weight_bytes = count * sizeof(float);
  fields.epilogue();
}

void read_conv(Fields& fields) {
  fields.window();
  fields.groups();
  read_weights(fields);
}

// None is the number whose negative does not exist: with it gone, products of two bytes fit where kernels put them.
template <typename T>
const void* read_integers(Fields& fields, std::uint64_t count) {
  const T* integers = fields.blob<T>(count, "weights");
  const bool fit = std::none_of(integers, integers + count, [](T k) { return k == std::numeric_limits<T>::min(); });
  fields.check(fit, "a rounded weight is out of range");
  return integers;
}

void read_rounded_conv(Fields& fields) {
  Operator& op = fields.op();
  fields.window();
  fields.groups();
  op.weight_bits = fields.flags("number of bits", 16);
  fields.check(op.weight_bits == 8 || op.weight_bits == 16, "weights are rounded to 8 or 16 bits");
  const std::uint64_t count = weight_count(op, fields.in(), fields.out());
  op.integers =
      op.weight_bits == 8 ? read_integers<std::int8_t>(fields, count) : read_integers<std::int16_t>(fields, count);
  op.weight_bytes = count * static_cast<std::uint64_t>(op.weight_bits / 8);
  const auto channels = static_cast<std::uint64_t>(fields.out().c);
  op.unit = fields.floats(channels, "unit");
  fields.check(std::all_of(op.unit, op.unit + channels, [](float unit) { return unit > 0; }), "a unit is not positive");
  fields.epilogue();
}

void read_linear(Fields& fields) {
  const Shape &in = fields.in(), &out = fields.out();
  fields.check(in.h == 1 && in.w == 1 && out.h == 1 && out.w == 1, "linear takes and gives a vector");
  read_weights(fields);
}

std::unique_ptr<Step> plan(const Operator& op, const Planning& planning) {
  return std::make_unique<ConvStep>(op, planning);
}

}  // namespace

ConvShape conv_shape(const Operator& op, const Model& model) {
  const Shape& in = model.values[static_cast<std::size_t>(op.inputs[0])];
  const Shape& out = model.values[static_cast<std::size_t>(op.output)];
  const Window& w = op.window;
  return {in.c, out.c, op.groups, in.h, in.w, out.h, out.w, w.kh, w.kw, w.sh, w.sw, w.ph, w.pw};
}

// The groups' blocks, one after the other.
std::uint64_t weight_count(const Operator& op, const Shape& in, const Shape& out) {
  return ConvShape{in.c, out.c, op.groups, 1, 1, 1, 1, op.window.kh, op.window.kw, 1, 1, 0, 0}.macs();
}

extern const OperatorKind conv_kind, linear_kind, rounded_conv_kind;
const OperatorKind conv_kind = {1, "conv", 1, false, 32, read_conv, plan};
const OperatorKind linear_kind = {3, "linear", 1, false, 32, read_linear, plan};
const OperatorKind rounded_conv_kind = {11, "rounded conv", 3, false, 0, read_rounded_conv, plan};

}  // namespace ftbnn
