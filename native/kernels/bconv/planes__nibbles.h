// Tables by nibble: four bits of a weight choose a table of sixteen counts, four bits of a code are the index, and one
// vpshufb looks up as many positions as a vector has bytes. Two operations for four products a byte.
#pragma once

#include "kernels/bconv/planes__x86.h"

namespace ftbnn {

namespace {

constexpr int CHUNK = 4, SEGMENT = 63;  // channels; steps whose counts, 4 at most, fit into bytes

// Entry [w][a] is the number of bits of a OP w.
struct Tables {
  alignas(64) std::uint8_t of[2][16][16] = {};
  constexpr Tables() {
    for (int w = 0; w < 16; ++w) {
      for (int a = 0; a < 16; ++a) {
        for (int bit = 0; bit < 4; ++bit) {
          of[0][w][a] = static_cast<std::uint8_t>(of[0][w][a] + (((a ^ w) >> bit) & 1));
          of[1][w][a] = static_cast<std::uint8_t>(of[1][w][a] + (((a & w) >> bit) & 1));
        }
      }
    }
  }
};
constexpr Tables tables;

// Weights are offsets of tables.
template <int Most>
std::size_t pack(const std::uint8_t* chunks, int channels, int steps, std::uint8_t* to) {
  return pack_parts<Most, std::uint8_t>(chunks, channels, steps, to, [](unsigned chunk) { return chunk << 4; });
}

[[maybe_unused]] void spread(const SpreadRow& row) { spread_chunks<CHUNK>(row); }

}  // namespace

}  // namespace ftbnn
