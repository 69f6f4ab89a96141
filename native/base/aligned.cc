#include "base/aligned.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace ftbnn {

namespace {

[[maybe_unused]] constexpr std::size_t LARGE = std::size_t{1} << 17, HUGE_PAGE = std::size_t{1} << 21;
constexpr std::size_t IN_ROOM = ~std::size_t{0};

thread_local Room* room_in_use = nullptr;

#if defined(__linux__)

#if !defined(MADV_POPULATE_WRITE)
constexpr int MADV_POPULATE_WRITE = 23;  // Linux 5.14
#endif

char* map(std::size_t size, int flags) {
  void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  return static_cast<char*>(mapped);
}

// From the start of a huge page on. That pages are huge is a wish: refused, it is as good as before.
char* map_huge(std::size_t size) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t used = round_up(size, page), all = used + HUGE_PAGE;
  char* first = map(all, 0);
  const auto address = reinterpret_cast<std::uintptr_t>(first);
  const std::size_t before = round_up(address, HUGE_PAGE) - address, behind = HUGE_PAGE - before;
  if (before > 0) munmap(first, before);
  if (behind > 0) munmap(first + before + used, behind);
  madvise(first + before, used, MADV_HUGEPAGE);
  return first + before;
}

// Pages that the system does not give at once come on first touch.
void populate(char* start, std::size_t size) { madvise(start, size, MADV_POPULATE_WRITE); }

#endif

}  // namespace

ZeroedBytes::ZeroedBytes(std::size_t size) {
  if (size == 0) return;
  if (room_in_use != nullptr) {
    if (void* taken = room_in_use->take(size)) {
      data_ = std::unique_ptr<void, Free>(taken, Free{IN_ROOM});
      return;
    }
  }
#if defined(__linux__)
  if (size >= LARGE) {
    char* start = size < HUGE_PAGE ? map(size, MAP_POPULATE) : map_huge(size);
    data_ = std::unique_ptr<void, Free>(start, Free{size});
    if (size >= HUGE_PAGE) populate(start, size);
    return;
  }
#endif
  size = round_up(size, CACHE_LINE);
  data_ = std::unique_ptr<void, Free>(::operator new(size, std::align_val_t{CACHE_LINE}), Free{0});
  std::memset(data_.get(), 0, size);
}

void ZeroedBytes::Free::operator()(void* pointer) const {
  if (mapped == IN_ROOM) return;
#if defined(__linux__)
  if (mapped != 0) {
    munmap(pointer, mapped);
    return;
  }
#endif
  ::operator delete(pointer, std::align_val_t{CACHE_LINE});
}

Room::Room(std::size_t bytes) {
#if defined(__linux__)
  if (bytes < LARGE) return;
  start_ = std::unique_ptr<char, Unmap>(bytes < HUGE_PAGE ? map(bytes, 0) : map_huge(bytes), Unmap{bytes});
  size_ = bytes;
#else
  static_cast<void>(bytes);
#endif
}

void Room::Unmap::operator()(char* start) const {
#if defined(__linux__)
  munmap(start, size);
#else
  static_cast<void>(start);
#endif
}

void* Room::take(std::size_t size) {
  size = round_up(size, CACHE_LINE);
  if (size > size_ - taken_) return nullptr;
  char* start = start_.get() + taken_;
  taken_ += size;
#if defined(__linux__)
  if (taken_ > ready_) {
    const std::size_t wanted = std::min(round_up(taken_, HUGE_PAGE), size_);
    populate(start_.get() + ready_, wanted - ready_);
    ready_ = wanted;
  }
#endif
  return start;
}

Room::Use::Use(Room& room) : before_(room_in_use) { room_in_use = &room; }

Room::Use::~Use() { room_in_use = before_; }

}  // namespace ftbnn
