#include "base/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ftbnn {

namespace {

constexpr int SPINS = 4000;  // some tens of microseconds
constexpr std::uint64_t TASK_LIMIT = std::uint64_t{1} << 32;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  for (int k = 1; k < threads; ++k) workers_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    ++round_;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

// A task once taken keeps the caller in run_erased, so `call_` and `context_` are those of its round, even if the
// worker came here for an earlier one.
void ThreadPool::take_tasks() {
  for (;;) {
    const std::uint64_t ticket = ticket_.fetch_add(1);
    const std::uint64_t task = ticket % TASK_LIMIT;
    if (task >= ticket / TASK_LIMIT) return;
    call_(context_, static_cast<int>(task));
    ++done_;
  }
}

void ThreadPool::run_erased(int count, Call call, const void* context) {
  call_ = call;
  context_ = context;
  done_ = 0;
  ticket_ = static_cast<std::uint64_t>(count) * TASK_LIMIT;
  ++round_;
  if (sleepers_ > 0) {
    const std::lock_guard<std::mutex> lock(mutex_);
    wake_.notify_all();
  }
  take_tasks();
  while (done_ < count) pause();
}

void ThreadPool::work() {
  unsigned seen = 0;
  for (;;) {
    for (int spin = 0; spin < SPINS && round_ == seen; ++spin) pause();
    if (round_ == seen) {
      std::unique_lock<std::mutex> lock(mutex_);
      ++sleepers_;
      wake_.wait(lock, [&] { return round_ != seen; });
      --sleepers_;
    }
    seen = round_;
    if (stop_) return;
    take_tasks();
  }
}

}  // namespace ftbnn
