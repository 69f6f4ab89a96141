// Large blocks of memory that are asked for again and again in the same sizes: what is given back is kept for the next.
//
// Fresh pages from the operating system cost about as much as what a training step does with them, and a heap that
// mixes lifetimes leaves holes. A size that is not there takes the place of others, and at most three quarters of
// what was ever in use at once are kept. Blocks are on huge pages where the system has them. Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace ftbnn {

class Blocks {
 public:
  ~Blocks();
  void* take(std::size_t bytes);  // throws std::bad_alloc
  void give_back(void* block);

 private:
  void release(std::size_t bytes);  // of the free ones, so many at least or all

  std::mutex mutex_;
  std::map<void*, std::size_t> taken_;      // and their sizes
  std::multimap<std::size_t, void*> free_;  // by size
  std::size_t free_bytes_ = 0, taken_bytes_ = 0, most_taken_ = 0;
};

}  // namespace ftbnn
