// Memory on cache-line boundaries, zeroed, freed with its owner.
#pragma once

#include <cstddef>
#include <memory>

namespace ftbnn {

constexpr std::size_t CACHE_LINE = 64;

inline std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

// Zeroed bytes. Large ones come from the kernel all at once: page by page, on first touch, would take ten times as
// long; those of several megabytes on huge pages where the system has them, in a sixth of the time.
class ZeroedBytes {
 public:
  ZeroedBytes() = default;
  explicit ZeroedBytes(std::size_t size);

  void* get() const { return data_.get(); }

 private:
  struct Free {
    std::size_t mapped;  // bytes; 0: of the heap
    void operator()(void* pointer) const;
  };
  std::unique_ptr<void, Free> data_;
};

// One piece of memory for many that live as long as it does: asked for one by one, they would come in small pages.
class Room {
 public:
  Room() = default;
  explicit Room(std::size_t bytes);

  // While this exists, what its thread asks for is taken from the room, as long as that has some left.
  class Use {
   public:
    explicit Use(Room& room);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Room* before_;
  };

  void* take(std::size_t size);  // null if there is no room

 private:
  struct Unmap {
    std::size_t size;
    void operator()(char* start) const;
  };
  std::unique_ptr<char, Unmap> start_;
  std::size_t size_ = 0, taken_ = 0;
  [[maybe_unused]] std::size_t ready_ = 0;  // pages that are there already, where the system can be asked for them
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
