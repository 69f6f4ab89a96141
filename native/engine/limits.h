// Sizes that planning shares.
#pragma once

#include <cstddef>

#include "kernels/conv_row.h"

namespace ftbnn {

constexpr std::size_t MAX_ARENA_FLOATS = std::size_t{1} << 28;  // a file may ask for so much memory and no more
constexpr std::size_t MAX_TILE_BYTES = std::size_t{1} << 27;    // what is larger as bytes stays bits
constexpr std::size_t MIN_TILE_POSITIONS = 16;                  // fewer leave rows of a tile empty

inline int panels_of(int channels) { return (channels + PANEL - 1) / PANEL; }
inline int words_of(int channels) { return (channels + 63) / 64; }

}  // namespace ftbnn
