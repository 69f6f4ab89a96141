#include "base/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ftbnn {

namespace {

constexpr int SPINS = 4000;  // some tens of microseconds

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

void ThreadPool::take_tasks() {
  for (int task = next_++; task < count_; task = next_++) call_(context_, task);
}

void ThreadPool::run_erased(int count, Call call, const void* context) {
  count_ = count;
  call_ = call;
  context_ = context;
  next_ = 0;
  busy_ = static_cast<int>(workers_.size());
  ++round_;
  if (sleepers_ > 0) {
    const std::lock_guard<std::mutex> lock(mutex_);
    wake_.notify_all();
  }
  take_tasks();
  while (busy_ > 0) pause();
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
    --busy_;
  }
}

}  // namespace ftbnn
