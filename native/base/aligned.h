// Memory on cache-line boundaries, zeroed, freed with its owner.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace ftbnn {

constexpr std::size_t CACHE_LINE = 64;

inline std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

template <typename T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(std::size_t size) : size_(size) {
    if (size == 0) return;
    const std::size_t bytes = round_up(size * sizeof(T), CACHE_LINE);
    data_.reset(static_cast<T*>(std::aligned_alloc(CACHE_LINE, bytes)));
    if (!data_) throw std::bad_alloc();
    std::memset(data_.get(), 0, bytes);
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t index) { return data_.get()[index]; }
  const T& operator[](std::size_t index) const { return data_.get()[index]; }

 private:
  struct Free {
    void operator()(T* pointer) const { std::free(pointer); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace ftbnn
