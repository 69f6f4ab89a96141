// A pool that runs numbered tasks on several threads.
//
// Each thread takes its own part of the tasks, one by one, and then what others have left, so which thread runs which
// is mostly the same and partly chance; a task must write only what is its own, and then the result does not depend on
// the number of threads. Between two calls the workers spin for a moment before they sleep: an operator takes some tens
// of microseconds, about as long as waking a thread. The caller waits for tasks, not for workers: one that wakes up
// late finds nothing to do, and nobody waited for it. What the first task to fail has thrown comes out of run, and
// tasks that have not begun by then do not begin.
//
// A fork copies no threads: in the child, the pool starts new ones when it has work for them.
#pragma once

#include <memory>

namespace ftbnn {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // 1 to 1024; throws std::invalid_argument if there cannot be so many
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Runs body(0, worker) ... body(count - 1, worker) and returns when all are done; no two tasks run at the same time
  // with the same worker, 0 to threads - 1. The caller works too, as worker 0. Not reentrant.
  template <typename Body>
  void run(int count, const Body& body) {
    if (threads_ == 1 || count < 2) {
      for (int task = 0; task < count; ++task) body(task, 0);
      return;
    }
    run_erased(
        count, [](const void* context, int task, int worker) { (*static_cast<const Body*>(context))(task, worker); },
        &body);
  }

 private:
  using Call = void (*)(const void*, int, int);
  class Crew;

  void run_erased(int count, Call call, const void* context);
  void hire();

  int threads_;
  unsigned forks_;  // that had happened when the crew was hired
  std::unique_ptr<Crew> crew_;
};

}  // namespace ftbnn
