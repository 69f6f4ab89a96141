// Runs a model: images in, outputs out. Safe to call from many threads at once.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "base/cpu.h"
#include "base/threads.h"
#include "engine/plan.h"
#include "engine/run.h"
#include "kernels/table.h"

namespace ftbnn {

class Engine {
 public:
  Engine(Model model, int threads);

  const Model& model() const { return model_; }
  const Plan& plan() const { return plan_; }
  Isa isa() const { return kernels_.isa; }
  int threads() const { return pool_.threads(); }

  // float32 images (batch, c, h, w), normalised already; output (batch, elements of the last value), channel-major.
  // Throws std::invalid_argument if a number is not finite.
  void run(const float* images, int batch, float* output) const;
  // 8-bit images (batch, h, w, c), normalised here as the file says.
  void run(const std::uint8_t* images, int batch, float* output) const;
  // Seconds that each operator took for one image, the fastest of `rounds` (index 0 is the input's conversion).
  std::vector<double> profile(const float* image, int rounds) const;
  std::vector<double> profile(const std::uint8_t* image, int rounds) const;

 private:
  class Loan;
  void reserve(int workspaces) const;
  template <typename Pixel>
  void run_all(const Pixel* images, int batch, float* output) const;
  template <typename Pixel>
  std::vector<double> profile_one(const Pixel* image, int rounds) const;

  Model model_;
  Plan plan_;
  const Kernels& kernels_;
  mutable ThreadPool pool_;
  mutable std::mutex pool_mutex_, workspaces_mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> workspaces_;
};

}  // namespace ftbnn
