#include "base/blocks.h"

#include <algorithm>
#include <iterator>
#include <new>

#include "base/aligned.h"
#include "base/pages.h"

namespace ftbnn {

namespace {

const std::size_t PAGE = page_size();
constexpr std::size_t HUGE_PAGE = std::size_t{2} << 20;

}  // namespace

// Addresses only.
Blocks::Blocks() {
  const std::size_t bytes = most_addresses() / PAGE * PAGE;
  begin_ = top_ = usable_ = reserve_pages(bytes);
  if (begin_ != nullptr) end_ = begin_ + bytes;
}

Blocks::~Blocks() {
  if (begin_ != nullptr) free_pages(begin_, end_ - begin_);
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
      if (!fill_pages(usable_, more)) throw std::bad_alloc();
      usable_ += more;
    }
    if (start < top_) remove_free(start, top_ - start);
    top_ = wanted;
    return start;
  }
  char* alone = reserve_pages(bytes);
  if (alone == nullptr) throw std::bad_alloc();
  if (!fill_pages(alone, bytes)) {
    free_pages(alone, bytes);
    throw std::bad_alloc();
  }
  return alone;
}

void Blocks::give_back(void* block) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto taken = taken_.find(block);
  char* start = static_cast<char*>(block);
  std::size_t bytes = taken->second;
  taken_.erase(taken);
  if (start < begin_ || start >= end_) {
    free_pages(start, bytes);
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
  for (const auto& [start, bytes] : free_) forget_pages(start, bytes);
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
