// In place of threads.cc and cores.cc where a build has no threads: the caller does all.
#include <stdexcept>
#include <string>

#include "base/cores.h"
#include "base/threads.h"

namespace ftbnn {

class ThreadPool::Crew {};

ThreadPool::ThreadPool(int threads) : threads_(threads), forks_(0) {
  if (threads != 1) throw std::invalid_argument("there are no threads here: give 1, not " + std::to_string(threads));
}

ThreadPool::~ThreadPool() = default;

// A pool of one thread has done everything before it would come to this.
void ThreadPool::run_erased(int, Call, const void*) { throw std::logic_error("there are no threads here"); }

int usable_cores() { return 1; }

}  // namespace ftbnn
