// A pool that runs numbered tasks on several threads.
//
// Tasks are handed out one by one, so which thread runs which is chance; a task must write only what is its own, and
// then the result does not depend on the number of threads. Between two calls the workers spin for a moment before they
// sleep: an operator takes some tens of microseconds, about as long as waking a thread. The caller waits for tasks, not
// for workers: one that wakes up late finds nothing to do, and nobody waited for it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace ftbnn {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs body(0) ... body(count - 1) and returns when all are done. The caller works too. Not reentrant.
  template <typename Body>
  void run(int count, const Body& body) {
    if (workers_.empty() || count < 2) {
      for (int task = 0; task < count; ++task) body(task);
      return;
    }
    run_erased(count, [](const void* context, int task) { (*static_cast<const Body*>(context))(task); }, &body);
  }

 private:
  using Call = void (*)(const void*, int);

  void run_erased(int count, Call call, const void* context);
  void work();
  void take_tasks();

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  Call call_ = nullptr;
  const void* context_ = nullptr;
  // Each on a cache line of its own: what the threads hammer on is not what the others read.
  alignas(64) std::atomic<std::uint64_t> ticket_{0};  // tasks of this round, tasks taken
  alignas(64) std::atomic<int> done_{0};
  alignas(64) std::atomic<unsigned> round_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace ftbnn
