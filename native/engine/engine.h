// Runs a model: images in, outputs out. Safe to call from many threads at once.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/cpu.h"
#include "base/mutex.h"
#include "base/threads.h"
#include "engine/image.h"
#include "engine/plan.h"

namespace ftbnn {

// What a call needs that works on its own thread alone.
struct Workspace {
  explicit Workspace(const Plan& plan) : memory(plan), desk(plan) {}
  Memory memory;
  Desk desk;
};

// Asked now and then, on the thread that called: throws what is to end the run.
using Interrupt = std::function<void()>;

class Engine {
 public:
  // isa: as FTBNN_ISA names it; "" for the one in use. any_order: floats of a real convolution may be summed in another
  // order than the plain one, where that is faster.
  Engine(Model model, int threads, const Limits& limits = {}, const std::string& isa = "", bool any_order = false);
  ~Engine();

  const Model& model() const { return model_; }
  const Plan& plan() const { return plan_; }
  const std::string& isa() const { return isa_; }
  int threads() const { return pool_.threads(); }

  // float32 images (batch, c, h, w), normalised already; output (batch, elements of the last value), channel-major.
  // Throws std::invalid_argument if a number is not finite.
  void run(const float* images, int batch, float* output, const Interrupt& interrupt = {}) const;
  // 8-bit images (batch, h, w, c), normalised here as the file says.
  void run(const std::uint8_t* images, int batch, float* output, const Interrupt& interrupt = {}) const;
  // The same on the calling thread alone, in memory of its own: never waits, allocates nothing.
  void run_alone(Workspace& space, const float* images, int batch, float* output) const;
  void run_alone(Workspace& space, const std::uint8_t* images, int batch, float* output) const;
  // Seconds that each operator took for one image, the fastest of `rounds` (index 0 is the input's conversion).
  std::vector<double> profile(const float* image, int rounds, const Interrupt& interrupt = {}) const;
  std::vector<double> profile(const std::uint8_t* image, int rounds, const Interrupt& interrupt = {}) const;

 private:
  class Loan;
  template <typename Pixel>
  void run_in(Workspace& space, const Pixel* images, int batch, float* output,
              const std::function<void()>& between) const;
  template <typename Pixel>
  void run_all(const Pixel* images, int batch, float* output, const Interrupt& interrupt) const;
  template <typename Pixel>
  std::vector<double> profile_one(const Pixel* image, int rounds, const Interrupt& interrupt) const;
  template <typename Pixel>
  void run_one(Image& image, const Pixel* pixels, float* output, const std::function<void()>& between) const;

  Model model_;
  std::string isa_;
  Plan plan_;
  // Who has the pool works in its memory: one for each thread from when images first go to threads of their own.
  mutable ThreadPool pool_;
  mutable Mutex pool_mutex_;
  mutable std::vector<std::unique_ptr<Memory>> memories_;
  mutable std::vector<Desk> desks_;  // of all threads
  // Calls that find the pool busy work alone, in memory that is kept here meanwhile.
  mutable Mutex spare_mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> spare_;
};

}  // namespace ftbnn
