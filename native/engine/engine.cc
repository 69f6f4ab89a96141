#include "engine/engine.h"

#include <chrono>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>

namespace ftbnn {

namespace {

void require_finite(const float* numbers, std::size_t count) {
  constexpr std::uint32_t EXPONENT = 0x7f800000;
  bool found = false;
  for (std::size_t k = 0; k < count; ++k) {
    std::uint32_t bits;
    std::memcpy(&bits, numbers + k, sizeof bits);
    found |= (bits & EXPONENT) == EXPONENT;
  }
  if (found) throw std::invalid_argument("the images have values that are not finite (NaN or infinity)");
}

}  // namespace

Engine::Engine(Model model, int threads)
    : model_(std::move(model)), plan_(make_plan(model_)), kernels_(kernels_for(isa_in_use())), pool_(threads) {
  workspaces_.push_back(std::make_unique<Workspace>(plan_, kernels_, threads));
}

// Gives the memory back when the run is over.
class Engine::Loan {
 public:
  explicit Loan(const Engine& engine) : engine_(engine) {
    const std::lock_guard<std::mutex> lock(engine_.workspaces_mutex_);
    if (engine_.workspaces_.empty()) {
      memory_ = std::make_unique<Workspace>(engine_.plan_, engine_.kernels_, engine_.threads());
    } else {
      memory_ = std::move(engine_.workspaces_.back());
      engine_.workspaces_.pop_back();
    }
  }
  ~Loan() {
    const std::lock_guard<std::mutex> lock(engine_.workspaces_mutex_);
    try {
      engine_.workspaces_.push_back(std::move(memory_));
    } catch (const std::bad_alloc&) {  // no room to keep it: the next one is made anew
    }
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  Workspace& operator*() const { return *memory_; }

 private:
  const Engine& engine_;
  std::unique_ptr<Workspace> memory_;
};

// So that which call allocates is not up to how its threads happen to overlap.
void Engine::reserve(int count) const {
  const std::lock_guard<std::mutex> lock(workspaces_mutex_);
  while (workspaces_.size() < static_cast<std::size_t>(count))
    workspaces_.push_back(std::make_unique<Workspace>(plan_, kernels_, threads()));
}

template <typename Pixel>
void Engine::run_all(const Pixel* images, int batch, float* output) const {
  const std::size_t in = model_.input().elements(), out = model_.output().elements();
  const auto one = [&](int k, Workspace& memory, ThreadPool* pool) {
    ImageRun run(model_, plan_, kernels_, memory, pool);
    run.load(images + static_cast<std::size_t>(k) * in);
    for (std::size_t index = 0; index < model_.operators.size(); ++index) run.execute(index);
    run.store(output + static_cast<std::size_t>(k) * out);
  };
  // A call that finds the pool busy with another one runs on its own thread alone: same results, no waiting.
  std::unique_lock<std::mutex> pool_lock(pool_mutex_, std::try_to_lock);
  ThreadPool* pool = pool_lock.owns_lock() && pool_.threads() > 1 ? &pool_ : nullptr;
  // Whole images to the threads as long as there is one for each; the rest together.
  const int apart = pool != nullptr ? batch / pool_.threads() * pool_.threads() : 0;
  if (apart > 0) {
    reserve(pool_.threads());
    pool_.run(apart, [&](int k) {
      const Loan memory(*this);
      one(k, *memory, nullptr);
    });
  }
  const Loan memory(*this);
  for (int k = apart; k < batch; ++k) one(k, *memory, pool);
}

void Engine::run(const float* images, int batch, float* output) const {
  require_finite(images, static_cast<std::size_t>(batch) * model_.input().elements());
  run_all(images, batch, output);
}
void Engine::run(const std::uint8_t* images, int batch, float* output) const { run_all(images, batch, output); }

template <typename Pixel>
std::vector<double> Engine::profile_one(const Pixel* image, int rounds) const {
  using Clock = std::chrono::steady_clock;
  std::vector<double> fastest(model_.operators.size() + 1, std::numeric_limits<double>::infinity());
  const Loan memory(*this);
  const std::lock_guard<std::mutex> pool_lock(pool_mutex_);
  ImageRun run(model_, plan_, kernels_, *memory, &pool_);
  for (int round = 0; round < rounds; ++round) {
    Clock::time_point before = Clock::now();
    const auto lap = [&](std::size_t index) {
      const Clock::time_point now = Clock::now();
      fastest[index] = std::min(fastest[index], std::chrono::duration<double>(now - before).count());
      before = now;
    };
    run.load(image);
    lap(0);
    for (std::size_t index = 0; index < model_.operators.size(); ++index) {
      run.execute(index);
      lap(index + 1);
    }
  }
  return fastest;
}

std::vector<double> Engine::profile(const float* image, int rounds) const {
  require_finite(image, model_.input().elements());
  return profile_one(image, rounds);
}
std::vector<double> Engine::profile(const std::uint8_t* image, int rounds) const { return profile_one(image, rounds); }

}  // namespace ftbnn
