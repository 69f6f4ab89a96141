// Float operands, in plain C++: every ISA's file includes this and compiles it with its own flags.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/conv_grad/conv_grad.h"
#include "kernels/conv_grad/product.h"
#include "kernels/conv_grad/scatter.h"

namespace ftbnn {

namespace {

void pack_rows(const float* from, std::size_t from_stride, int count, int channels, const GradRows& to) {
  for (int p = 0; p < count; ++p, from += from_stride) {
    float* row = static_cast<float*>(to.at) + p * to.stride;
    std::copy(from, from + channels, row);
    std::fill(row + channels, row + to.depth, 0.0F);
  }
}

// Sixteen positions at a time, so that whole cache lines are written.
void pack_columns(const float* const* from, int count, int channels, const GradRows& to) {
  constexpr int block = 16;
  for (int k = 0; k < to.depth; k += block) {
    const int size = std::min(block, to.depth - k);
    float* column = static_cast<float*>(to.at) + k;
    for (int j = 0; j < size; ++j) {
      const float* position = k + j < count ? from[k + j] : nullptr;
      for (int c = 0; c < channels; ++c) column[c * to.stride + j] = position == nullptr ? 0 : position[c];
    }
  }
}

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

template <int Bytes>
struct FloatMath {
  typedef float Vector __attribute__((vector_size(Bytes), may_alias));
  typedef Vector Floats;
  typedef FloatRow Row;
  typedef float Dword;
  static constexpr int depth = 1, narrow_steps = 0;
  static void multiply_add(Vector& sum, float left, Vector right) { sum += left * right; }
};

// Tiles of so many rows, in vectors of so many bytes.
template <int Rows, int Bytes>
constexpr GradKernels float_kernels() {
  return {1,
          1,
          nullptr,
          pack_rows,
          pack_columns,
          pack_codes,
          pack_signs,
          nothing,
          product<FloatMath<Bytes>, Rows>,
          nothing,
          scatter,
          roof<FloatMath<Bytes>>};
}

}  // namespace

}  // namespace ftbnn
