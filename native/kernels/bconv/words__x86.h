// What kernels of words have in common on x86.
#pragma once

#include "kernels/bconv/words.h"

namespace ftbnn {

namespace {

void ones(const std::uint64_t* codes, std::size_t words, int positions, std::int32_t* ones) {
  for (int x = 0; x < positions; ++x) {
    long long sum = 0;
    for (std::size_t k = 0; k < words; ++k) sum += __builtin_popcountll(*codes++);
    ones[x] = static_cast<std::int32_t>(sum);
  }
}

}  // namespace

}  // namespace ftbnn
