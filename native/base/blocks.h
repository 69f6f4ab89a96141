// Large blocks of memory that are asked for again and again: what is given back is kept for the next.
//
// Fresh pages from the operating system cost about as much as what a training step does with them, and a heap that
// mixes lifetimes leaves holes. Blocks lie side by side in one range of addresses; a free one is joined with its free
// neighbours, the smallest that fits is taken and what is too much of it stays free, so that a step finds its memory
// where the one before left it, in whatever sizes. On huge pages where the system has them. Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace ftbnn {

class Blocks {
 public:
  Blocks();
  ~Blocks();
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  void* take(std::size_t bytes);  // throws std::bad_alloc
  void give_back(void* block);
  void release();  // the pages of all that is free to the operating system

 private:
  char* grow(std::size_t bytes);
  void add_free(char* start, std::size_t bytes);
  void remove_free(char* start, std::size_t bytes);

  std::mutex mutex_;
  char* begin_ = nullptr;  // the range: [begin_, top_) has been in use, up to usable_ may be written, end_ is its end
  char *top_ = nullptr, *usable_ = nullptr, *end_ = nullptr;
  std::map<void*, std::size_t> taken_;             // and their sizes
  std::map<char*, std::size_t> free_;              // by address; no two touch
  std::set<std::pair<std::size_t, char*>> sizes_;  // the same by size
};

}  // namespace ftbnn
