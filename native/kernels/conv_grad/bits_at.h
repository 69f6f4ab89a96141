// Compiled by each ISA's file with its own flags.
#pragma once

#include <cstdint>

namespace ftbnn {

namespace {

// 32 bits that start anywhere in `count` words; no word past them is read.
inline std::uint32_t bits_at(const std::uint64_t* words, int first, int count) {
  const int word = first / 64, shift = first % 64;
  std::uint64_t bits = words[word] >> shift;
  if (shift > 32 && word + 1 < count) bits |= words[word + 1] << (64 - shift);
  return static_cast<std::uint32_t>(bits);
}

}  // namespace

}  // namespace ftbnn
