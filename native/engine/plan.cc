#include "engine/plan.h"

#include <algorithm>

#include "base/table.h"
#include "engine/operators/operator.h"

namespace ftbnn {

namespace {

std::size_t z(int value) { return static_cast<std::size_t>(value); }

// How often operators read each value; the network's output is read once more.
std::vector<int> count_readers(const Model& model) {
  std::vector<int> readers(model.values.size(), 0);
  ++readers[z(model.operators.back().output)];
  for (const Operator& op : model.operators) {
    for (const int input : op.inputs) ++readers[z(input)];
    if (op.tail.shortcut >= 0) ++readers[z(op.tail.shortcut)];
  }
  return readers;
}

// (x / 255 - mean) / std as one multiplication and addition, for every element of a row: scales, then shifts.
AlignedArray<float> pixels_of(const Model& model) {
  const Shape& in = model.input();
  const std::size_t line = z(in.w) * z(in.c);
  AlignedArray<float> pixels(2 * line);
  for (std::size_t k = 0; k < line; ++k) {
    const double mean = model.mean[k % z(in.c)], std = model.std[k % z(in.c)];
    pixels[k] = static_cast<float>(1 / (255 * std));
    pixels[line + k] = static_cast<float>(-mean / std);
  }
  return pixels;
}

}  // namespace

Plan::Plan(const Model& model, Features usable, const Limits& limits)
    : forms_(model), between_(between_table().best(usable).kernels) {
  const Shape& in = model.input();
  const std::uint64_t pixel_floats = 2 * std::uint64_t{z(in.w)} * z(in.c);
  if (pixel_floats * sizeof(float) > limits.bytes()) throw FormatError("the image is too large");
  pixels_ = pixels_of(model);
  const Planning planning{model, forms_, usable, count_readers(model), pixel_scale(), pixel_shift()};
  for (const Operator& op : model.operators) steps_.push_back(op.kind->plan(op, planning));
  is_run_.assign(steps_.size(), true);
  absorb(model);
  forms_.at_step(0);
  forms_.read_real(0);
  for (std::size_t k = steps_.size(); k-- > 0;) {
    forms_.at_step(static_cast<int>(k));
    if (k + 1 == steps_.size()) forms_.read_real(model.operators[k].output);
    if (is_run_[k]) is_run_[k] = steps_[k]->declare(forms_);
  }
  assign_codes(model);
  forms_.place(static_cast<int>(steps_.size()));
  check(model, limits);
  forms_.keep_thresholds();
  prepare();
}

void Plan::prepare() {
  room_ = Room(static_cast<std::size_t>(weights_));
  const Room::Use use(room_);
  for (std::size_t k = 0; k < steps_.size(); ++k) {
    if (is_run_[k]) steps_[k]->prepare(forms_);
    if (is_run_[k] && steps_[k]->stem() != nullptr) stem_ = steps_[k]->stem();
  }
}

void Plan::absorb(const Model& model) {
  constexpr int none = -1, several = -2;
  std::vector<int> reader(model.values.size(), none);                // the step that alone reads a value's numbers
  std::vector<const Operator*> coded(model.values.size(), nullptr);  // the first that reads a value's codes
  for (std::size_t k = 0; k < steps_.size(); ++k) {
    const Operator& op = model.operators[k];
    if (op.tail.shortcut >= 0) reader[z(forms_.source(op.tail.shortcut).value)] = several;
    if (steps_[k]->reads_codes()) {
      const Source& source = forms_.source(op.inputs[0]);
      const Operator*& first = coded[z(source.value)];
      if (first == nullptr) first = &op;
      // One coded form is written from registers, others are made of the numbers.
      const bool same =
          Forms::are_same_codes(first->threshold, forms_.source(first->inputs[0]).runs, op.threshold, source.runs);
      if (!same) reader[z(source.value)] = several;
    }
    if (!steps_[k]->reads_real()) continue;
    for (const int input : op.inputs) {
      int& known = reader[z(forms_.source(input).value)];
      known = known == none ? static_cast<int>(k) : several;
    }
  }
  for (std::size_t k = 0; k < steps_.size(); ++k) {
    const int only = reader[z(model.operators[k].output)];
    if (only >= 0 && steps_[k]->absorb(*steps_[z(only)])) is_run_[z(only)] = false;
  }
}

void Plan::assign_codes(const Model& model) {
  std::vector<Step*> writer(model.values.size(), nullptr);
  for (std::size_t k = 0; k < steps_.size(); ++k) {
    if (is_run_[k]) writer[z(model.operators[k].output)] = steps_[k].get();
  }
  for (std::size_t f = 0; f < forms_.codes().size(); ++f) {
    CodeForm& form = forms_.codes()[f];
    Step* step = writer[z(form.value)];
    form.is_direct = step != nullptr && step->direct_codes(form, static_cast<int>(f));
    if (!form.is_direct) forms_.pack(static_cast<int>(f));
  }
}

// Adds up all that will be allocated, and all that an image will take.
void Plan::check(const Model& model, const Limits& limits) {
  std::uint64_t preparing = 0, operations = 0;
  for (std::size_t k = 0; k < steps_.size(); ++k) {
    operations_.push_back(model.values[z(model.operators[k].output)].elements() + steps_[k]->operations());
    operations += operations_.back();
    if (!is_run_[k]) continue;
    const Sizes sizes = steps_[k]->sizes();
    weights_ += sizes.weights;
    arranged_ = std::max(arranged_, sizes.arranged);
    scratch_ = std::max(scratch_, sizes.scratch);
    preparing = std::max(preparing, sizes.preparing);
  }
  for (std::uint64_t* bytes : {&arranged_, &scratch_}) *bytes = (*bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
  const std::uint64_t image =
      arranged_ + scratch_ + forms_.arena_floats() * sizeof(float) + forms_.code_words() * sizeof(std::uint64_t);
  const std::uint64_t bytes = model.bytes.size() + pixels_.size() * sizeof(float) + weights_ +
                              forms_.threshold_bytes() + std::max(image, preparing);
  if (bytes > limits.bytes()) {
    throw FormatError("the network would take " + std::to_string(bytes) + " bytes of memory, more than the " +
                      std::to_string(limits.bytes()) + " that are allowed (max_bytes)");
  }
  if (operations > limits.max_macs) {
    throw FormatError("an image would take " + std::to_string(operations) + " operations, more than the " +
                      std::to_string(limits.max_macs) + " that are allowed (max_macs)");
  }
}

}  // namespace ftbnn
