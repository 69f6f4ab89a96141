// Bytes in plain loops: the reference of the kernels that count in them.
#include <algorithm>

#include "kernels/conv_grad/rounding.h"
#include "kernels/conv_grad/scatter.h"

namespace ftbnn {

namespace {

constexpr int PACKED = 4;

std::int8_t& right_element(void* right, int k, int lane) {
  return static_cast<std::int8_t*>(right)[(k / PACKED * GRAD_LANES + lane) * PACKED + k % PACKED];
}

void find_largest(const float* from, std::size_t count, int channels, std::uint32_t* largest) {
  std::fill(largest, largest + channels, 0U);
  for (std::size_t p = 0; p < count; ++p, from += channels) {
    for (int c = 0; c < channels; ++c) {
      std::uint32_t bits;
      std::memcpy(&bits, from + c, sizeof bits);
      largest[c] = std::max(largest[c], bits & 0x7fffffff);
    }
  }
}

// Element (row, k) is value(row, k), or 0 past `size`.
template <typename Value>
void pack_left(int rows, int size, const GradRows& to, const Value& value) {
  for (int r = 0; r < rows; ++r) {
    std::uint8_t* row = static_cast<std::uint8_t*>(to.at) + r * to.stride;
    for (int k = 0; k < to.depth; ++k) {
      row[k] = static_cast<std::uint8_t>(k < size ? rounded_to_byte(value(r, k), to.rates[r]) : GRAD_ZERO);
    }
  }
}

void pack_byte_rows(const float* from, std::size_t from_stride, int count, int channels, const GradRows& to) {
  pack_left(count, channels, to, [&](int p, int c) { return from[p * from_stride + c]; });
}

void pack_byte_columns(const float* const* from, int count, int channels, const GradRows& to) {
  pack_left(channels, count, to, [&](int c, int k) { return from[k] == nullptr ? 0.0F : from[k][c]; });
}

void pack_byte_codes(const std::uint64_t* const* from, int count, int first, int words, bool zero_one, void* to) {
  for (int k = 0; k < count; ++k) {
    const std::uint32_t bits = from[k] == nullptr ? 0 : bits_at(from[k], first, words);
    const std::int8_t off = from[k] == nullptr || zero_one ? 0 : -1;
    for (int lane = 0; lane < GRAD_LANES; ++lane) right_element(to, k, lane) = (bits >> lane & 1) != 0 ? 1 : off;
  }
}

void pack_byte_signs(const float* proxies, std::size_t row, int outs, int lanes, int taps, void* to,
                     std::size_t tap_stride, int depth) {
  for (int tap = 0; tap < taps; ++tap) {
    std::int8_t* panel = static_cast<std::int8_t*>(to) + tap * tap_stride;
    std::fill(panel, panel + depth * GRAD_LANES, std::int8_t{0});
    for (int o = 0; o < outs; ++o) {
      for (int c = 0; c < lanes; ++c) right_element(panel, o, c) = proxies[o * row + c * taps + tap] > 0 ? 1 : -1;
    }
  }
}

void product(const GradProduct& task) {
  for (int r = 0; r < task.rows; ++r) {
    std::int32_t sums[GRAD_LANES] = {};
    for (int s = 0; s < task.segments; ++s) {
      const std::uint8_t* left =
          static_cast<const std::uint8_t*>(task.left) + (task.left_row[s] + r) * task.left_stride;
      void* right = static_cast<std::int8_t*>(const_cast<void*>(task.right)) + task.right_at[s];
      for (int k = 0; k < task.depth; ++k) {
        const int steps = left[k] - GRAD_ZERO;
        for (int lane = 0; lane < task.lanes; ++lane) sums[lane] += steps * right_element(right, k, lane);
      }
    }
    float* out = task.out + static_cast<std::size_t>(r) * GRAD_LANES;
    for (int lane = 0; lane < task.lanes; ++lane) {
      const float value = static_cast<float>(sums[lane]) * task.steps[r];
      out[lane] = task.adds ? out[lane] + value : value;
    }
  }
}

void nothing() {}

}  // namespace

extern const GradKernels byte_grad__portable;
const GradKernels byte_grad__portable = {
    PACKED,          PACKED,  find_largest, pack_byte_rows, pack_byte_columns, pack_byte_codes,
    pack_byte_signs, nothing, product,      nothing,        scatter,           nullptr};

}  // namespace ftbnn
