// The float kernels, for vectors of any width: every ISA's file includes this and is compiled with its own flags.
// Everything has internal linkage.
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
  const float* sums = task.sums;
  const int words = (task.first + task.lanes + 63) / 64;
  for (int x = 0; x < task.xs; ++x) {
    for (int n = 0; n < task.ns; ++n, sums += GRAD_LANES) {
      float* gx = task.gx + x * task.gx_x + n * task.gx_n;
      const std::uint32_t bits = bits_at(task.inside + x * task.inside_x + n * task.inside_n, task.first, words);
      for (int lane = 0; lane < task.lanes; ++lane) gx[lane] += (bits & lane_bits.of[lane]) != 0 ? sums[lane] : 0.0F;
    }
  }
}

void nothing() {}

// Vector is a GCC vector of floats; a tile is Rows x Columns of them in registers.
template <typename Vector, int Rows, int Columns>
void product_tile(const GradProduct& task, int row, int lane) {
  const std::size_t stride = task.left_stride;
  Vector sums[Rows][Columns] = {};
  for (int s = 0; s < task.segments; ++s) {
    const float* left = static_cast<const float*>(task.left) + task.left_at[s] + row * stride;
    const float* right = static_cast<const float*>(task.right) + task.right_at[s] + lane;
    for (int k = 0; k < task.depth; ++k, right += GRAD_LANES) {
      Vector factors[Columns];
#pragma GCC unroll 2
      for (int c = 0; c < Columns; ++c) factors[c] = reinterpret_cast<const Vector*>(right)[c];
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
        for (int c = 0; c < Columns; ++c) sums[r][c] += left[r * stride + k] * factors[c];
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
    Vector* out = reinterpret_cast<Vector*>(task.out + static_cast<std::size_t>(row + r) * GRAD_LANES + lane);
#pragma GCC unroll 2
    for (int c = 0; c < Columns; ++c) out[c] = task.adds ? out[c] + sums[r][c] : sums[r][c];
  }
}

template <typename Vector, int Rows, int Columns>
void product_rows(const GradProduct& task, int rows, int row, int lane) {
  if constexpr (Rows > 0) {
    if (rows == Rows) return product_tile<Vector, Rows, Columns>(task, row, lane);
    product_rows<Vector, Rows - 1, Columns>(task, rows, row, lane);
  }
}

// Cuts the rows into as few tiles as it takes, of nearly equal sizes.
template <typename Vector, int Rows, int Columns>
void product(const GradProduct& task, int lane) {
  const int count = (task.rows + Rows - 1) / Rows;
  for (int tile = 0, row = 0; tile < count; ++tile) {
    const int rows = (task.rows - row) / (count - tile);
    product_rows<Vector, Rows, Columns>(task, rows, row, lane);
    row += rows;
  }
}

template <typename Vector, int Rows>
void product(const GradProduct& task) {
  constexpr int width = sizeof(Vector) / sizeof(float);
  for (int lane = 0; lane < task.lanes; lane += 2 * width) {
    task.lanes - lane > width ? product<Vector, Rows, 2>(task, lane) : product<Vector, Rows, 1>(task, lane);
  }
}

}  // namespace

}  // namespace ftbnn
