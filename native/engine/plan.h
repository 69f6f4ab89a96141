// What is decided once, when a model is loaded: kernels, weights in the order they read them, and where values live.
#pragma once

#include <memory>
#include <vector>

#include "engine/forms.h"
#include "engine/model.h"
#include "engine/step.h"
#include "kernels/between/between.h"
#include "kernels/stem/stem.h"

namespace ftbnn {

class Plan {
 public:
  // Throws FormatError if the network asks for more than the limits.
  Plan(const Model& model, Features usable, const Limits& limits);

  const Forms& forms() const { return forms_; }
  const BetweenKernels& between() const { return between_; }
  std::uint64_t macs(std::size_t step) const { return steps_[step]->macs(); }
  std::uint64_t operations(std::size_t step) const { return operations_[step]; }
  // Null where another step does the operator, or nobody needs it.
  const Step* step(std::size_t index) const { return is_run_[index] ? steps_[index].get() : nullptr; }

  // The image for the integer stem, where there is one.
  const Stem* stem() const { return stem_; }
  // scale * pixel + shift, of every element of a row of an 8-bit image.
  const float* pixel_scale() const { return pixels_.data(); }
  const float* pixel_shift() const { return pixels_.data() + pixels_.size() / 2; }

  std::size_t arena_floats() const { return static_cast<std::size_t>(forms_.arena_floats()); }
  std::size_t code_words() const { return static_cast<std::size_t>(forms_.code_words()); }
  // Of a thread: an image as a convolution reads it, and what that works in.
  std::size_t arranged_bytes() const { return static_cast<std::size_t>(arranged_); }
  std::size_t scratch_bytes() const { return static_cast<std::size_t>(scratch_); }
  std::size_t stem_bytes() const { return stem_ != nullptr ? stem_->pixel_bytes() : 0; }

 private:
  void absorb(const Model& model);
  void assign_codes(const Model& model);
  void check(const Model& model, const Limits& limits);
  void prepare();

  Forms forms_;
  const BetweenKernels& between_;
  Room room_;  // of the steps' weights
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<std::uint64_t> operations_;
  std::vector<bool> is_run_;
  AlignedArray<float> pixels_;
  const Stem* stem_ = nullptr;
  std::uint64_t weights_ = 0, arranged_ = 0, scratch_ = 0;
};

}  // namespace ftbnn
