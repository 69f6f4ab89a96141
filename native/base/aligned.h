// Memory on cache-line boundaries, zeroed, freed with its owner.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace ftbnn {

constexpr std::size_t CACHE_LINE = 64;

inline std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

// Zeroed bytes. Large ones come from the kernel all at once: page by page, on first touch, would take ten times as
// long.
class ZeroedBytes {
 public:
  ZeroedBytes() = default;
  explicit ZeroedBytes(std::size_t size) {
    if (size == 0) return;
#if defined(__linux__)
    if (size >= LARGE) {
      const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
      void* pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, -1, 0);
      if (pages == MAP_FAILED) throw std::bad_alloc();
      data_ = std::unique_ptr<void, Free>(pages, Free{size});
      return;
    }
#endif
    size = round_up(size, CACHE_LINE);
    data_ = std::unique_ptr<void, Free>(std::aligned_alloc(CACHE_LINE, size), Free{0});
    if (!data_) throw std::bad_alloc();
    std::memset(data_.get(), 0, size);
  }

  void* get() const { return data_.get(); }

 private:
  static constexpr std::size_t LARGE = std::size_t{1} << 17;

  struct Free {
    std::size_t mapped;
    void operator()(void* pointer) const {
#if defined(__linux__)
      if (mapped != 0) {
        munmap(pointer, mapped);
        return;
      }
#endif
      std::free(pointer);
    }
  };
  std::unique_ptr<void, Free> data_;
};

template <typename T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(std::size_t size) : bytes_(size * sizeof(T)), size_(size) {}

  T* data() { return static_cast<T*>(bytes_.get()); }
  const T* data() const { return static_cast<const T*>(bytes_.get()); }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t index) { return data()[index]; }
  const T& operator[](std::size_t index) const { return data()[index]; }

 private:
  ZeroedBytes bytes_;
  std::size_t size_ = 0;
};

}  // namespace ftbnn
