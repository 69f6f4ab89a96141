#include "base/blocks.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <new>

#include "base/aligned.h"

namespace ftbnn {

namespace {

const auto PAGE = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));  // 4 KiB, on some systems 16 or 64
constexpr std::size_t HUGE_PAGE = std::size_t{2} << 20;

void* map(std::size_t bytes, int protection) {
  void* mapped = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

}  // namespace

// Addresses only: twice as many as there is memory, or a quarter of what the process may have.
Blocks::Blocks() {
  std::size_t bytes = 2 * static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * PAGE;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    bytes = std::min<std::size_t>(bytes, limit.rlim_cur / 4);
  }
  begin_ = static_cast<char*>(map(bytes, PROT_NONE));
  top_ = usable_ = begin_;
  if (begin_ == nullptr) return;
  end_ = begin_ + bytes / PAGE * PAGE;
#if defined(MADV_HUGEPAGE)
  madvise(begin_, end_ - begin_, MADV_HUGEPAGE);  // a wish: refused, it is as good as before
#endif
}

Blocks::~Blocks() {
  if (begin_ != nullptr) munmap(begin_, end_ - begin_);
}

void* Blocks::take(std::size_t bytes) {
  bytes = round_up(std::max<std::size_t>(bytes, 1), PAGE);
  const std::lock_guard<std::mutex> lock(mutex_);
  char* start = nullptr;
  const auto found = sizes_.lower_bound({bytes, nullptr});
  if (found != sizes_.end()) {
    const std::size_t found_bytes = found->first;
    start = found->second;
    remove_free(start, found_bytes);
    if (found_bytes > bytes) add_free(start + bytes, found_bytes - bytes);
  } else {
    start = grow(bytes);
  }
  taken_[start] = bytes;
  return start;
}

// A block at the end of what is in use, or, if the range has no room, one of its own.
char* Blocks::grow(std::size_t bytes) {
  char* start = top_;
  if (!free_.empty()) {
    const auto last = std::prev(free_.end());
    if (last->first + last->second == top_) start = last->first;
  }
  if (static_cast<std::size_t>(end_ - start) >= bytes) {
    char* wanted = start + bytes;
    if (wanted > usable_) {
      const std::size_t more = std::min<std::size_t>(round_up(wanted - usable_, HUGE_PAGE), end_ - usable_);
      if (mprotect(usable_, more, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
      usable_ += more;
    }
    if (start < top_) remove_free(start, top_ - start);
    top_ = wanted;
    return start;
  }
  void* alone = map(bytes, PROT_READ | PROT_WRITE);
  if (alone == nullptr) throw std::bad_alloc();
  return static_cast<char*>(alone);
}

void Blocks::give_back(void* block) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto taken = taken_.find(block);
  char* start = static_cast<char*>(block);
  std::size_t bytes = taken->second;
  taken_.erase(taken);
  if (start < begin_ || start >= end_) {
    munmap(start, bytes);
    return;
  }
  const auto after = free_.lower_bound(start);
  char* joined = start;
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == start) joined = before->first;
  }
  if (after != free_.end() && after->first == start + bytes) {
    const std::size_t more = after->second;
    remove_free(after->first, more);
    bytes += more;
  }
  if (joined < start) remove_free(joined, start - joined);
  add_free(joined, bytes + (start - joined));
}

void Blocks::release() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [start, bytes] : free_) madvise(start, bytes, MADV_DONTNEED);
}

void Blocks::add_free(char* start, std::size_t bytes) {
  free_.emplace(start, bytes);
  sizes_.emplace(bytes, start);
}

void Blocks::remove_free(char* start, std::size_t bytes) {
  free_.erase(start);
  sizes_.erase({bytes, start});
}

}  // namespace ftbnn
