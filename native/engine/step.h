// An operator on its way from the file to running: which kernel does it, what that reads, and how it runs.
#pragma once

#include "base/cpu.h"
#include "engine/forms.h"
#include "engine/model.h"
#include "kernels/stem/stem.h"

namespace ftbnn {

class Image;

// What a step may know when it is made.
struct Planning {
  const Model& model;
  Forms& forms;
  Features usable;
  std::vector<int> readers;                // of each value, by operators
  const float *pixel_scale, *pixel_shift;  // of the channels of an 8-bit image
};

// The calls below come in this order. From the first to the last step: made. Then absorb; declare, from the last step
// to the first; direct_codes; sizes; prepare; and run, for every image.
class Step {
 public:
  Step(const Operator& op, const Planning& planning) : op_(op), model_(planning.model) {}
  virtual ~Step() = default;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  const Operator& op() const { return op_; }

  // Whether it reads the numbers of its inputs, not their codes or their place alone.
  virtual bool reads_real() const { return true; }
  // Whether it reads codes of its first input, compared with the thresholds of its operator.
  virtual bool reads_codes() const { return false; }
  // Does the work of the only one that reads the numbers of its output too; false if it cannot.
  virtual bool absorb(Step& /*reader*/) { return false; }
  // Says which forms it reads and writes. False if there is nothing to do.
  virtual bool declare(Forms& forms) = 0;
  // Writes this coded form of its output as it makes it; false if it cannot.
  virtual bool direct_codes(CodeForm& /*form*/, int /*number*/) { return false; }
  virtual Sizes sizes() const { return {}; }
  virtual std::uint64_t macs() const { return 0; }
  // What it does to make its output, beyond one for each element: what limits and interruptions go by.
  virtual std::uint64_t operations() const { return macs(); }
  // Lays out its weights.
  virtual void prepare(const Forms& /*forms*/) {}
  // Where 8-bit images go in integers.
  virtual const Stem* stem() const { return nullptr; }
  virtual void run(Image& image) const = 0;

 protected:
  static std::size_t z(int value) { return static_cast<std::size_t>(value); }
  const Shape& shape(int value) const { return model_.values[static_cast<std::size_t>(value)]; }
  const Shape& in() const { return shape(op_.inputs[0]); }
  const Shape& out() const { return shape(op_.output); }

  const Operator& op_;
  const Model& model_;
};

}  // namespace ftbnn
