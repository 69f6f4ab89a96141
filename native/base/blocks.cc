#include "base/blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <new>

namespace ftbnn {

namespace {

constexpr std::size_t HUGE_PAGE = std::size_t{2} << 20;
constexpr std::size_t PAGE = 4096;

// Not from the heap: long and short lives side by side would leave holes in it.
void* fresh(std::size_t bytes) {
  const std::size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : PAGE, wide = bytes + align - PAGE;
  void* mapped = mmap(nullptr, wide, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* start = static_cast<char*>(mapped);
  const std::size_t before = (align - reinterpret_cast<std::uintptr_t>(start) % align) % align;
  if (before > 0) munmap(start, before);
  if (wide > before + bytes) munmap(start + before + bytes, wide - before - bytes);
#if defined(MADV_HUGEPAGE)
  if (align == HUGE_PAGE) madvise(start + before, bytes, MADV_HUGEPAGE);  // a wish: refused, it is as good as before
#endif
  return start + before;
}

}  // namespace

Blocks::~Blocks() { release(SIZE_MAX); }

void* Blocks::take(std::size_t bytes) {
  const std::size_t unit = bytes >= HUGE_PAGE ? HUGE_PAGE : PAGE;
  bytes = (bytes + unit - 1) / unit * unit;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = free_.lower_bound(bytes);
  void* block = nullptr;
  if (found != free_.end() && found->first < bytes + bytes / 2) {
    bytes = found->first;
    block = found->second;
    free_.erase(found);
    free_bytes_ -= bytes;
  } else {
    release(bytes);
    block = fresh(bytes);
  }
  taken_[block] = bytes;
  taken_bytes_ += bytes;
  most_taken_ = std::max(most_taken_, taken_bytes_);
  return block;
}

void Blocks::give_back(void* block) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = taken_.find(block);
  free_.emplace(found->second, block);
  free_bytes_ += found->second;
  taken_bytes_ -= found->second;
  taken_.erase(found);
  // Others need memory too while none of ours is in use: the last quarter goes back.
  const std::size_t most = most_taken_ / 4 * 3;
  if (free_bytes_ > most) release(free_bytes_ - most);
}

void Blocks::release(std::size_t bytes) {
  for (std::size_t released = 0; released < bytes && !free_.empty();) {
    const auto largest = std::prev(free_.end());
    munmap(largest->second, largest->first);
    released += largest->first;
    free_bytes_ -= largest->first;
    free_.erase(largest);
  }
}

}  // namespace ftbnn
