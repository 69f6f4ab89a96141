// What the first of several tasks to throw has thrown, brought to the thread that waits for them: out of memory in a
// worker must be an error of its caller, not the end of the process.
#pragma once

#include <atomic>
#include <exception>
#include <utility>

namespace ftbnn {

class FirstError {
 public:
  template <typename Task>
  void keep_from(const Task& task) noexcept {
    try {
      task();
    } catch (...) {
      if (!is_kept_.exchange(1)) error_ = std::current_exception();
    }
  }

  // Whether there is no use in going on.
  bool is_kept() const { return is_kept_; }

  // By the one who waited, once every task is done.
  void rethrow() {
    if (!is_kept_.exchange(0)) return;
    std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  std::atomic<int> is_kept_{0};  // no bool: RISC-V exchanges words only, and else needs a library
  std::exception_ptr error_;
};

}  // namespace ftbnn
