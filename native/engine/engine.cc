#include "engine/engine.h"

#include <chrono>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>

namespace ftbnn {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t WORTH_ASKING = std::uint64_t{1} << 24;  // operations: some hundred microseconds

// In operations that every CPU has vectors for: one more than the largest exponent is carried into the sign.
void require_finite(const float* numbers, std::size_t count) {
  constexpr std::uint32_t EXPONENT = 0x7f800000, ONE = 0x00800000;
  std::uint32_t carried = 0;
  for (std::size_t k = 0; k < count; ++k) {
    std::uint32_t bits;
    std::memcpy(&bits, numbers + k, sizeof bits);
    carried |= (bits & EXPONENT) + ONE;
  }
  if (carried >> 31 != 0) {
    throw std::invalid_argument("the images have values that are not finite (NaN or infinity)");
  }
}

// Asks a few times a second.
class Questions {
 public:
  explicit Questions(const Interrupt& interrupt) : interrupt_(interrupt) {}
  void ask() {
    if (!interrupt_ || Clock::now() < next_) return;
    interrupt_();
    next_ = Clock::now() + std::chrono::milliseconds(50);
  }

 private:
  const Interrupt& interrupt_;
  Clock::time_point next_ = Clock::now() + std::chrono::milliseconds(50);
};

}  // namespace

// Gives the memory back when the run is over.
class Engine::Loan {
 public:
  explicit Loan(const Engine& engine) : engine_(engine) {
    const Lock lock(engine_.spare_mutex_);
    if (engine_.spare_.empty()) {
      space_ = std::make_unique<Workspace>(engine_.plan_);
    } else {
      space_ = std::move(engine_.spare_.back());
      engine_.spare_.pop_back();
    }
  }
  ~Loan() {
    const Lock lock(engine_.spare_mutex_);
    try {
      engine_.spare_.push_back(std::move(space_));
    } catch (const std::bad_alloc&) {  // no room to keep it: the next one is made anew
    }
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  Workspace& operator*() const { return *space_; }

 private:
  const Engine& engine_;
  std::unique_ptr<Workspace> space_;
};

Engine::Engine(Model model, int threads, const Limits& limits, const std::string& isa, bool any_order)
    : model_(std::move(model)),
      isa_(isa.empty() ? isa_in_use() : isa),
      plan_(model_, usable_features(isa) & ~(any_order ? 0 : feature::other_rounding), limits),
      pool_(threads) {
  for (int k = 0; k < threads; ++k) desks_.emplace_back(plan_);
  memories_.push_back(std::make_unique<Memory>(plan_));
  // The plan has what it needs of the file's bytes.
  model_.bytes = {};
  for (Operator& op : model_.operators) {
    op.weights = op.unit = op.threshold = nullptr;
    op.integers = nullptr;
    op.bits = nullptr;
    op.map = nullptr;
  }
}

Engine::~Engine() = default;

template <typename Pixel>
void Engine::run_one(Image& image, const Pixel* pixels, float* output, const std::function<void()>& between) const {
  if (between) between();
  image.load(pixels);
  for (std::size_t k = 0; k < model_.operators.size(); ++k) {
    const Step* step = plan_.step(k);
    if (step == nullptr) continue;
    if (plan_.operations(k) > WORTH_ASKING && between) between();
    step->run(image);
  }
  image.store(output);
}

template <typename Pixel>
void Engine::run_in(Workspace& space, const Pixel* images, int batch, float* output,
                    const std::function<void()>& between) const {
  const auto in = static_cast<std::size_t>(model_.input().elements());
  const auto out = static_cast<std::size_t>(model_.output().elements());
  Image image(model_, plan_, space.memory, &space.desk, nullptr);
  for (int k = 0; k < batch; ++k, images += in, output += out) run_one(image, images, output, between);
}

template <typename Pixel>
void Engine::run_all(const Pixel* images, int batch, float* output, const Interrupt& interrupt) const {
  const auto in = static_cast<std::size_t>(model_.input().elements());
  const auto out = static_cast<std::size_t>(model_.output().elements());
  const auto at = [](int k, std::size_t size) { return static_cast<std::size_t>(k) * size; };
  Questions questions(interrupt);
  const auto ask = [&] { questions.ask(); };
  const TryLock lock(pool_mutex_);
  if (!lock.owns_lock()) {  // another call has the pool: same results on this thread alone, and no waiting
    const Loan space(*this);
    return run_in(*space, images, batch, output, ask);
  }
  // Whole images to the threads as long as there is one for each; the rest together.
  const int threads = pool_.threads(), apart = threads > 1 ? batch / threads * threads : 0;
  if (apart > 0) {
    while (memories_.size() < static_cast<std::size_t>(threads)) memories_.push_back(std::make_unique<Memory>(plan_));
    pool_.run(apart, [&](int k, int worker) {
      Image image(model_, plan_, *memories_[static_cast<std::size_t>(worker)], desks_.data() + worker, nullptr);
      const std::function<void()> none;
      run_one(image, images + at(k, in), output + at(k, out), worker == 0 ? std::function<void()>(ask) : none);
    });
  }
  Image image(model_, plan_, *memories_.front(), desks_.data(), threads > 1 ? &pool_ : nullptr);
  for (int k = apart; k < batch; ++k) run_one(image, images + at(k, in), output + at(k, out), ask);
}

void Engine::run(const float* images, int batch, float* output, const Interrupt& interrupt) const {
  require_finite(images, static_cast<std::size_t>(batch) * static_cast<std::size_t>(model_.input().elements()));
  run_all(images, batch, output, interrupt);
}

void Engine::run(const std::uint8_t* images, int batch, float* output, const Interrupt& interrupt) const {
  run_all(images, batch, output, interrupt);
}

void Engine::run_alone(Workspace& space, const float* images, int batch, float* output) const {
  require_finite(images, static_cast<std::size_t>(batch) * static_cast<std::size_t>(model_.input().elements()));
  run_in(space, images, batch, output, {});
}

void Engine::run_alone(Workspace& space, const std::uint8_t* images, int batch, float* output) const {
  run_in(space, images, batch, output, {});
}

template <typename Pixel>
std::vector<double> Engine::profile_one(const Pixel* pixels, int rounds, const Interrupt& interrupt) const {
  std::vector<double> fastest(model_.operators.size() + 1, std::numeric_limits<double>::infinity());
  const Lock lock(pool_mutex_);
  Image image(model_, plan_, *memories_.front(), desks_.data(), &pool_);
  Questions questions(interrupt);
  for (int round = 0; round < rounds; ++round) {
    questions.ask();
    Clock::time_point before = Clock::now();
    const auto lap = [&](std::size_t index) {
      const Clock::time_point now = Clock::now();
      fastest[index] = std::min(fastest[index], std::chrono::duration<double>(now - before).count());
      before = now;
    };
    image.load(pixels);
    lap(0);
    for (std::size_t k = 0; k < model_.operators.size(); ++k) {
      if (const Step* step = plan_.step(k)) step->run(image);
      lap(k + 1);
    }
  }
  return fastest;
}

std::vector<double> Engine::profile(const float* image, int rounds, const Interrupt& interrupt) const {
  require_finite(image, static_cast<std::size_t>(model_.input().elements()));
  return profile_one(image, rounds, interrupt);
}

std::vector<double> Engine::profile(const std::uint8_t* image, int rounds, const Interrupt& interrupt) const {
  return profile_one(image, rounds, interrupt);
}

}  // namespace ftbnn
