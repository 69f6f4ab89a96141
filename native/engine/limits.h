// Sizes that planning shares.
#pragma once

#include <cstddef>

#include "kernels/conv_row.h"

namespace ftbnn {

constexpr std::size_t MAX_ARENA_FLOATS = std::size_t{1} << 28;  // a file may ask for so much memory and no more

inline int panels_of(int channels) { return (channels + PANEL - 1) / PANEL; }
inline int words_of(int channels) { return (channels + 63) / 64; }

}  // namespace ftbnn
