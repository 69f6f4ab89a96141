// Float operands, in plain C++: every ISA's file includes this and compiles it with its own flags.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/conv_grad/conv_grad.h"

namespace ftbnn {

namespace {

void pack_rows(const float* from, std::size_t from_stride, int count, int channels, void* to, std::size_t to_stride,
               int depth) {
  for (int p = 0; p < count; ++p, from += from_stride) {
    float* row = static_cast<float*>(to) + p * to_stride;
    std::copy(from, from + channels, row);
    std::fill(row + channels, row + depth, 0.0F);
  }
}

// Sixteen positions at a time, so that whole cache lines are written.
void pack_columns(const float* const* from, int count, int channels, void* to, std::size_t to_stride, int depth) {
  constexpr int block = 16;
  for (int k = 0; k < depth; k += block) {
    const int size = std::min(block, depth - k);
    float* column = static_cast<float*>(to) + k;
    for (int j = 0; j < size; ++j) {
      const float* position = k + j < count ? from[k + j] : nullptr;
      for (int c = 0; c < channels; ++c) column[c * to_stride + j] = position == nullptr ? 0 : position[c];
    }
  }
}

// 32 bits that start anywhere.
inline std::uint32_t bits_at(const std::uint64_t* words, int first, int count) {
  const int word = first / 64, shift = first % 64;
  std::uint64_t bits = words[word] >> shift;
  if (shift > 32 && word + 1 < count) bits |= words[word + 1] << (64 - shift);
  return static_cast<std::uint32_t>(bits);
}

struct LaneBits {
  std::uint32_t of[GRAD_LANES] = {};
  constexpr LaneBits() {
    for (int lane = 0; lane < GRAD_LANES; ++lane) of[lane] = std::uint32_t{1} << lane;
  }
};
constexpr LaneBits lane_bits;

void pack_codes(const std::uint64_t* const* from, int count, int first, int words, bool zero_one, void* to) {
  const float off = zero_one ? 0.0F : -1.0F;
  float* row = static_cast<float*>(to);
  for (int k = 0; k < count; ++k, row += GRAD_LANES) {
    if (from[k] == nullptr) {
      std::fill(row, row + GRAD_LANES, 0.0F);
      continue;
    }
    const std::uint32_t bits = bits_at(from[k], first, words);
    for (int lane = 0; lane < GRAD_LANES; ++lane) row[lane] = (bits & lane_bits.of[lane]) != 0 ? 1.0F : off;
  }
}

void pack_signs(const float* proxies, std::size_t row, int outs, int lanes, int taps, void* to, std::size_t tap_stride,
                int depth) {
  for (int tap = 0; tap < taps; ++tap) {
    float* panel = static_cast<float*>(to) + tap * tap_stride;
    std::fill(panel, panel + depth * GRAD_LANES, 0.0F);
    for (int o = 0; o < outs; ++o) {
      const float* from = proxies + o * row + tap;
      for (int c = 0; c < lanes; ++c) panel[o * GRAD_LANES + c] = from[c * taps] > 0 ? 1.0F : -1.0F;
    }
  }
}

void scatter(const GradScatter& task) {
  const int words = (task.first + task.channels + 63) / 64;
  for (int n = 0; n < task.ns; ++n) {
    for (int x = 0; x < task.xs; ++x) {
      const float* sums = task.sums + (x * task.ns + n) * GRAD_LANES;
      float* gx = task.gx + x * task.gx_x + n * task.gx_n;
      const std::uint64_t* inside = task.inside + x * task.inside_x + n * task.inside_n;
      for (int c = 0; c < task.channels; c += GRAD_LANES, sums += task.product_size, gx += GRAD_LANES) {
        const std::uint32_t bits = bits_at(inside, task.first + c, words);
        const int lanes = std::min(GRAD_LANES, task.channels - c);
        for (int lane = 0; lane < lanes; ++lane) gx[lane] += (bits & lane_bits.of[lane]) != 0 ? sums[lane] : 0.0F;
      }
    }
  }
}

}  // namespace

}  // namespace ftbnn
