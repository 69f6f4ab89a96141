// Memory on cache lines that its owner, mostly a thread, keeps from call to call: fresh pages cost more than what is
// done with them. It grows to what the largest call needs.
#pragma once

#include <memory>
#include <new>
#include <vector>

#include "base/aligned.h"

namespace ftbnn {

class Scratch {
 public:
  // What was taken before may be taken again.
  void restart() { next_ = 0; }

  template <typename T>
  T* take(std::size_t count) {
    return static_cast<T*>(take_bytes(count * sizeof(T)));
  }

  void* take_bytes(std::size_t bytes) {
    if (next_ == blocks_.size()) blocks_.emplace_back();
    Block& block = blocks_[next_++];
    if (bytes > block.size) {
      block.data.reset();  // not two at a time
      block.size = 0;
      block.data.reset(::operator new(bytes, std::align_val_t{CACHE_LINE}));
      block.size = bytes;
    }
    return block.data.get();
  }

 private:
  struct Free {
    void operator()(void* pointer) const { ::operator delete(pointer, std::align_val_t{CACHE_LINE}); }
  };
  struct Block {
    std::unique_ptr<void, Free> data;
    std::size_t size = 0;
  };
  std::vector<Block> blocks_;
  std::size_t next_ = 0;
};

}  // namespace ftbnn
