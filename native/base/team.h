// Runs numbered tasks on the threads of an OpenMP runtime that lives in the process already, else on a pool.
//
// Beside PyTorch the first matters: its OpenMP workers spin for a while after each of its operators, on the cores that
// workers of ours would need. Given GOMP_parallel of the very libgomp that PyTorch loaded, both share one set of
// threads. As in ThreadPool, tasks are handed out one by one and must write only what is their own; what the first to
// fail has thrown comes out of run.
#pragma once

#include <atomic>
#include <memory>

#include "base/first_error.h"
#include "base/threads.h"

namespace ftbnn {

class Team {
 public:
  using Launch = void (*)(void (*body)(void*), void* data, unsigned threads, unsigned flags);

  explicit Team(int threads, Launch launch = nullptr)
      : threads_(threads),
        launch_(launch),
        pool_(launch == nullptr ? std::make_unique<ThreadPool>(threads) : nullptr) {}

  int threads() const { return threads_; }
  Launch launch() const { return launch_; }

  // Runs body(0) ... body(count - 1) and returns when all are done. The caller works too. Not reentrant.
  template <typename Body>
  void run(int count, const Body& body) {
    if (launch_ == nullptr) return pool_->run(count, [&](int task, int) { body(task); });
    if (threads_ == 1 || count < 2) {
      for (int task = 0; task < count; ++task) body(task);
      return;
    }
    struct Round {
      const Body& body;
      int count;
      std::atomic<int> next{0};
      FirstError error{};
    } round{body, count};
    launch_(
        [](void* data) {
          auto& round = *static_cast<Round*>(data);
          for (int task = round.next++; task < round.count; task = round.next++)
            if (!round.error.is_kept()) round.error.keep_from([&] { round.body(task); });
        },
        &round, static_cast<unsigned>(threads_), 0);
    round.error.rethrow();
  }

 private:
  int threads_;
  Launch launch_;
  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace ftbnn
