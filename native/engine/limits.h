// Sizes that planning shares.
#pragma once

#include <cstddef>

#include "kernels/conv_row.h"

namespace ftbnn {

constexpr std::size_t MAX_ARENA_FLOATS = std::size_t{1} << 28;  // a file may ask for so much memory and no more

// What is left of it for the weights of all operators together: blobs may be shared, their arranged copies are not.
class Room {
 public:
  // False if there is not that much left.
  bool take(std::size_t bytes) {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

 private:
  std::size_t left_ = MAX_ARENA_FLOATS * sizeof(float);
};

inline int panels_of(int channels) { return (channels + PANEL - 1) / PANEL; }
inline int words_of(int channels) { return (channels + 63) / 64; }

}  // namespace ftbnn
