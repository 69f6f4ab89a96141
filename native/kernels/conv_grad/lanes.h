// The bits of lanes, and the way sums go to where they belong: each ISA's file compiles this with its own flags.
#pragma once

#include "kernels/conv_grad/conv_grad.h"

namespace ftbnn {

namespace {

// 32 bits that start anywhere in `count` words; no word past them is read.
inline std::uint32_t bits_at(const std::uint64_t* words, int first, int count) {
  const int word = first / 64, shift = first % 64;
  std::uint64_t bits = words[word] >> shift;
  if (shift > 32 && word + 1 < count) bits |= words[word + 1] << (64 - shift);
  return static_cast<std::uint32_t>(bits);
}

// add(gx, sums, bits, channels) for every position and 32 lanes: where they go, what goes there, where it may, and how
// many channels are left from there on.
template <typename Add>
inline void scatter_by(const GradScatter& task, const Add& add) {
  const int words = (task.first + task.channels + 63) / 64;
  for (int n = 0; n < task.ns; ++n) {
    for (int x = 0; x < task.xs; ++x) {
      const float* sums = task.sums + (x * task.ns + n) * GRAD_LANES;
      float* gx = task.gx + x * task.gx_x + n * task.gx_n;
      const std::uint64_t* inside = task.inside + x * task.inside_x + n * task.inside_n;
      for (int c = 0; c < task.channels; c += GRAD_LANES, sums += task.product_size, gx += GRAD_LANES) {
        add(gx, sums, bits_at(inside, task.first + c, words), task.channels - c);
      }
    }
  }
}

}  // namespace

}  // namespace ftbnn
