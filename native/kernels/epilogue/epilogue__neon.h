// The epilogue with 16 channels at a time, four vectors: every NEON file with sums includes this.
#pragma once

#include <arm_neon.h>

#include <type_traits>
#include <utility>

#include "kernels/epilogue/epilogue.h"

namespace ftbnn {

namespace {

constexpr int LANES = 16, PARTS = 4;  // floats that are done together, and the vectors they are in

struct Floats {
  float32x4_t part[PARTS];
};

// body(0) to body(Count - 1), each number a constant: what arrays hold then stays in registers.
template <typename Body, int... Number>
__attribute__((always_inline)) inline void repeat(const Body& body, std::integer_sequence<int, Number...>) {
  (body(std::integral_constant<int, Number>{}), ...);
}
template <int Count, typename Body>
__attribute__((always_inline)) inline void repeat(const Body& body) {
  repeat(body, std::make_integer_sequence<int, Count>{});
}

inline Floats load_floats(const float* from) {
  return {{vld1q_f32(from), vld1q_f32(from + 4), vld1q_f32(from + 8), vld1q_f32(from + 12)}};
}

inline void store_floats(float* to, const Floats& value) {
  for (int k = 0; k < PARTS; ++k) vst1q_f32(to + 4 * k, value.part[k]);
}

// The first `count` of them, 1 to 15; the others are 0, or left as they are.
inline Floats load_some(const float* from, int count) {
  float all[LANES] = {};
  __builtin_memcpy(all, from, static_cast<std::size_t>(count) * sizeof(float));
  return load_floats(all);
}
inline void store_some(float* to, const Floats& value, int count) {
  float all[LANES];
  store_floats(all, value);
  __builtin_memcpy(to, all, static_cast<std::size_t>(count) * sizeof(float));
}

// Bit k is lane k of y > threshold.
inline unsigned signs_of(const Floats& y, const Floats& threshold) {
  const auto above = [&](int k) { return vreinterpretq_u16_u32(vcgtq_f32(y.part[k], threshold.part[k])); };
  const uint16x8_t low = vuzp1q_u16(above(0), above(1)), high = vuzp1q_u16(above(2), above(3));
  const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
  uint8x16_t signs = vandq_u8(vuzp1q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high)), bits);
  for (int k = 0; k < 3; ++k) signs = vpaddq_u8(signs, signs);
  return vgetq_lane_u16(vreinterpretq_u16_u8(signs), 0);
}

// Half a panel's of a position; the first half clears the second.
inline void put_signs(std::uint32_t* codes, int first, unsigned signs) {
  if (first == 0) {
    *codes = signs;
  } else {
    const auto half = static_cast<std::uint16_t>(signs);
    __builtin_memcpy(reinterpret_cast<char*>(codes) + 2, &half, sizeof half);
  }
}

// Signs against the thresholds of the copies, of values that were put to memory for it.
__attribute__((noinline)) inline void sign_copies(const Epilogue& end, int channels, int first, std::size_t x,
                                                  int positions, const float* y) {
  const unsigned exists = channels - first >= LANES ? 0xffff : (1U << (channels - first)) - 1;
  for (int copy = 1; copy <= end.copies; ++copy) {
    const std::size_t n = static_cast<std::size_t>(copy);
    const Floats threshold = load_floats(threshold_of(end, copy) + first);
    std::uint32_t* codes = end.codes + x * end.codes_stride + n * end.copy_codes;
    for (int p = 0; p < positions; ++p, codes += end.codes_stride) {
      put_signs(codes, first, signs_of(load_floats(y + p * LANES), threshold) & exists);
    }
  }
}

// Channels `first` to first + 15 of an epilogue, for some positions at a time. Each step takes all positions, so one
// branch serves them all and what belongs to channels is loaded once.
template <int Positions>
__attribute__((always_inline)) inline void finish(const Epilogue& end, int channels, int first, std::size_t x,
                                                  Floats (&y)[Positions]) {
  const int count = channels - first;
  const bool full = count >= LANES;
  const float32x4_t zero = vdupq_n_f32(0);
  // change(y, k): vector k of each position.
  const auto each = [&y](const auto& change) {
    repeat<PARTS>([&](auto k) { repeat<Positions>([&](auto p) { y[p].part[k] = change(y[p].part[k], k); }); });
  };
  const Floats scale = load_floats(end.scale + first), shift = load_floats(end.shift + first);
  each([&](float32x4_t v, int k) { return vfmaq_f32(shift.part[k], scale.part[k], v); });
  const auto bend = [&](const float* left_slopes, const float* right_slopes) {
    const Floats left = load_floats(left_slopes + first), right = load_floats(right_slopes + first);
    each(
        [&](float32x4_t v, int k) { return vmulq_f32(v, vbslq_f32(vcgtq_f32(v, zero), right.part[k], left.part[k])); });
  };
  if (end.first_left != nullptr) bend(end.first_left, end.first_right);
  if (end.shortcut != nullptr) {
    const float* from = end.shortcut + x * end.shortcut_stride + first;
    repeat<Positions>([&](auto p) {
      const Floats shortcut = full ? load_floats(from) : load_some(from, count);
      repeat<PARTS>([&](auto k) { y[p].part[k] = vaddq_f32(y[p].part[k], shortcut.part[k]); });
      from += end.shortcut_stride;
    });
  }
  if (end.act == Act::relu) {
    each([&](float32x4_t v, int) {
      return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v), vcgtq_f32(v, zero)));
    });
  } else if (end.act == Act::prelu) {
    const Floats left = load_floats(end.left + first);
    each([&](float32x4_t v, int k) { return vbslq_f32(vcgtq_f32(v, zero), v, vmulq_f32(left.part[k], v)); });
  } else if (end.act == Act::fprelu) {
    bend(end.left, end.right);
  } else if (end.act == Act::clamp) {
    const float32x4_t low = vdupq_n_f32(end.low), high = vdupq_n_f32(end.high);
    each([&](float32x4_t v, int) {  // by comparisons: what is not a number stays, and of zeros the one that is there
      const float32x4_t raised = vbslq_f32(vcltq_f32(v, low), low, v);
      return vbslq_f32(vcgtq_f32(raised, high), high, raised);
    });
  }
  if (end.after != nullptr) {
    const Floats after = load_floats(end.after + first);
    each([&](float32x4_t v, int k) { return vaddq_f32(v, after.part[k]); });
  }
  if (end.out != nullptr) {
    float* out = end.out + x * end.out_stride + first;
    repeat<Positions>([&](auto p) {
      full ? store_floats(out, y[p]) : store_some(out, y[p], count);
      out += end.out_stride;
    });
  }
  if (end.codes != nullptr) {
    const Floats threshold = end.threshold != nullptr ? load_floats(end.threshold + first) : Floats{};
    const unsigned exists = full ? 0xffff : (1U << count) - 1;
    std::uint32_t* codes = end.codes + x * end.codes_stride;
    repeat<Positions>([&](auto p) {
      put_signs(codes, first, signs_of(y[p], threshold) & exists);
      codes += end.codes_stride;
    });
    if (end.copies > 0) {
      float kept[Positions * LANES];
      repeat<Positions>([&](auto p) { store_floats(kept + p * LANES, y[p]); });
      sign_copies(end, channels, first, x, Positions, kept);
    }
  }
}

}  // namespace

}  // namespace ftbnn
