#include "base/threads.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/first_error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace ftbnn {

namespace {

constexpr int MAX_THREADS = 1024;
constexpr int SPINS = 4000;         // some tens of microseconds
constexpr int CALLER_SPINS = 1000;  // before the caller lets others have the core: a quota may have stopped a worker
constexpr std::uint64_t TASK_LIMIT = std::uint64_t{1} << 32;
constexpr std::size_t LINE = 64;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");  // waits about as long as x86's pause does; `yield` does nothing on most cores
#endif
}

// How many forks lie between the first process with a pool and this one; Windows has none.
std::atomic<unsigned>& forks() {
  static std::atomic<unsigned> count{0};
#if !defined(_WIN32)
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++count; });
  static_cast<void>(registered);
#endif
  return count;
}

}  // namespace

// The tasks of a round are cut into as many neighbouring parts as there are threads: each takes its own, then what
// others have left of theirs. So from round to round a thread mostly meets the rows that it made before, in its own
// cache.
class ThreadPool::Crew {
 public:
  // Delegates, so that the threads that did start are sent home if one does not.
  explicit Crew(int threads) : Crew(static_cast<std::size_t>(threads), 0) {
    for (int k = 1; k < threads; ++k) workers_.emplace_back([this, k] { work(k); });
  }
  ~Crew();

  void run(int count, Call call, const void* context);

 private:
  // What a thread takes from and counts in, on a cache line of its own.
  struct alignas(LINE) Part {
    std::atomic<std::uint64_t> ticket{0};              // where the tasks end, and the next one
    alignas(LINE) std::atomic<std::uint64_t> done{0};  // tasks, of all rounds
  };

  Crew(std::size_t threads, int) : parts_(threads) {}
  void work(int worker);
  void take_tasks(int worker);

  std::vector<Part> parts_;  // of every thread, the caller's first
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  FirstError error_;
  std::uint64_t tasks_ = 0;  // of all rounds
  // What workers wait for, and what they read first when it comes.
  alignas(LINE) std::atomic<unsigned> round_{0};
  Call call_ = nullptr;
  const void* context_ = nullptr;
  std::atomic<bool> stop_{false};
  alignas(LINE) std::atomic<int> sleepers_{0};
};

ThreadPool::Crew::~Crew() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    ++round_;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

// A task once taken keeps the caller in run, so `call_` and `context_` are those of its round, even if the worker came
// here for an earlier one.
void ThreadPool::Crew::take_tasks(int worker) {
  const auto own = static_cast<std::size_t>(worker);
  std::uint64_t done = 0;
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    std::atomic<std::uint64_t>& tickets = parts_[(own + k) % parts_.size()].ticket;
    for (;;) {
      const std::uint64_t ticket = tickets.fetch_add(1), task = ticket % TASK_LIMIT;
      if (task >= ticket / TASK_LIMIT) break;
      if (!error_.is_kept()) error_.keep_from([&] { call_(context_, static_cast<int>(task), worker); });
      ++done;
    }
  }
  if (done > 0) parts_[own].done.fetch_add(done);
}

void ThreadPool::Crew::run(int count, Call call, const void* context) {
  call_ = call;
  context_ = context;
  const auto tasks = static_cast<std::uint64_t>(count), threads = static_cast<std::uint64_t>(parts_.size());
  for (std::uint64_t k = 0; k < threads; ++k) {
    parts_[k].ticket = tasks * (k + 1) / threads * TASK_LIMIT + tasks * k / threads;
  }
  tasks_ += tasks;
  ++round_;
  if (sleepers_ > 0) {
    const std::lock_guard<std::mutex> lock(mutex_);
    wake_.notify_all();
  }
  take_tasks(0);
  const auto is_done = [this] {
    std::uint64_t done = 0;
    for (const Part& part : parts_) done += part.done;
    return done == tasks_;
  };
  for (int spin = 0; !is_done(); ++spin) spin < CALLER_SPINS ? pause() : std::this_thread::yield();
  error_.rethrow();
}

void ThreadPool::Crew::work(int worker) {
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
    take_tasks(worker);
  }
}

ThreadPool::ThreadPool(int threads) : threads_(threads) {
  if (threads < 1 || threads > MAX_THREADS)
    throw std::invalid_argument("threads must be 1 to " + std::to_string(MAX_THREADS) + ", not " +
                                std::to_string(threads));
  hire();
}

// The crew of a forked process's parent is not here to be joined or woken, and its locks may be anybody's: left alone.
ThreadPool::~ThreadPool() {
  if (forks_ != forks()) static_cast<void>(crew_.release());
}

void ThreadPool::hire() {
  static_cast<void>(crew_.release());
  try {
    if (threads_ > 1) crew_ = std::make_unique<Crew>(threads_);
  } catch (const std::system_error&) {
    throw std::invalid_argument("this system does not start " + std::to_string(threads_) + " threads");
  }
  forks_ = forks();
}

void ThreadPool::run_erased(int count, Call call, const void* context) {
  if (forks_ != forks()) hire();
  crew_->run(count, call, context);
}

}  // namespace ftbnn
