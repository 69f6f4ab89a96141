// The epilogue with 4 channels to a vector, 16 channels at a time: every file of WebAssembly's SIMD with sums includes
// this. Nothing is fused, so it gives portable's bits.
#pragma once

#include <wasm_simd128.h>

#include "kernels/epilogue/epilogue.h"

namespace ftbnn {

namespace {

constexpr int LANES = 4;  // floats of a vector
constexpr int HALF = 4;   // vectors of half a panel

// One step of the epilogue, for all vectors and positions: so that one branch serves them all and they stay in
// registers.
template <int Vectors, int Positions, typename Step>
inline void for_all(v128_t (&y)[Vectors][Positions], const Step& step) {
#pragma unroll
  for (int v = 0; v < Vectors; ++v) {
#pragma unroll
    for (int p = 0; p < Positions; ++p) y[v][p] = step(y[v][p], v, p);
  }
}

// Sixteen channels from `first` on, a multiple of 16, of which all are there.
template <int Positions>
inline void finish_whole(const Epilogue& end, int first, std::size_t x, v128_t (&y)[HALF][Positions]) {
  const v128_t zero = wasm_f32x4_const_splat(0);
  const auto load = [first](const float* from, int v) { return wasm_v128_load(from + first + v * LANES); };
  for_all(y, [&](v128_t acc, int v, int) {
    return wasm_f32x4_add(wasm_f32x4_mul(load(end.scale, v), acc), load(end.shift, v));
  });
  const auto bend = [&](const float* left, const float* right) {
    for_all(y, [&](v128_t sum, int v, int) {
      return wasm_f32x4_mul(sum, wasm_v128_bitselect(load(right, v), load(left, v), wasm_f32x4_gt(sum, zero)));
    });
  };
  if (end.first_left != nullptr) bend(end.first_left, end.first_right);
  if (end.shortcut != nullptr) {
    const float* shortcut = end.shortcut + x * end.shortcut_stride;
    for_all(y, [&](v128_t sum, int v, int p) {
      return wasm_f32x4_add(sum, load(shortcut + static_cast<std::size_t>(p) * end.shortcut_stride, v));
    });
  }
  if (end.act == Act::relu) {
    for_all(y, [&](v128_t sum, int, int) { return wasm_v128_and(sum, wasm_f32x4_gt(sum, zero)); });
  } else if (end.act == Act::prelu) {
    for_all(y, [&](v128_t sum, int v, int) {
      return wasm_v128_bitselect(sum, wasm_f32x4_mul(load(end.left, v), sum), wasm_f32x4_gt(sum, zero));
    });
  } else if (end.act == Act::fprelu) {
    bend(end.left, end.right);
  } else if (end.act == Act::clamp) {
    const v128_t low = wasm_f32x4_splat(end.low), high = wasm_f32x4_splat(end.high);
    for_all(y, [&](v128_t sum, int, int) { return wasm_f32x4_pmin(wasm_f32x4_pmax(sum, low), high); });
  }
  if (end.after != nullptr) {
    for_all(y, [&](v128_t sum, int v, int) { return wasm_f32x4_add(sum, load(end.after, v)); });
  }
  if (end.out != nullptr) {
    float* out = end.out + x * end.out_stride + first;
    for_all(y, [&](v128_t sum, int v, int p) {
      wasm_v128_store(out + static_cast<std::size_t>(p) * end.out_stride + v * LANES, sum);
      return sum;
    });
  }
  if (end.codes == nullptr) return;
  const auto sign_half = [&](std::uint32_t* to, const float* bounds) {
    v128_t threshold[HALF];
#pragma unroll
    for (int v = 0; v < HALF; ++v) threshold[v] = bounds != nullptr ? load(bounds, v) : zero;
#pragma unroll
    for (int p = 0; p < Positions; ++p) {
      const auto above = [&](int v) { return wasm_f32x4_gt(y[v][p], threshold[v]); };
      const v128_t low = wasm_i16x8_narrow_i32x4(above(0), above(1));
      const v128_t high = wasm_i16x8_narrow_i32x4(above(2), above(3));
      const std::uint32_t signs = wasm_i8x16_bitmask(wasm_i8x16_narrow_i16x8(low, high));
      std::uint32_t& codes = to[static_cast<std::size_t>(p) * end.codes_stride];
      codes = first == 0 ? signs : codes | signs << first;
    }
  };
  for (int copy = 0; copy <= end.copies; ++copy) {
    sign_half(end.codes + x * end.codes_stride + static_cast<std::size_t>(copy) * end.copy_codes,
              threshold_of(end, copy));
  }
}

// The same of any number of channels: the others' numbers come from memory that nobody else sees.
template <int Positions>
inline void finish(const Epilogue& end, int channels, int first, std::size_t x, v128_t (&y)[HALF][Positions]) {
  const int count = channels - first;
  if (count >= HALF * LANES) return finish_whole(end, first, x, y);
  for (int p = 0; p < Positions; ++p) {
    const std::size_t at = x + static_cast<std::size_t>(p);
    float some[HALF * LANES];
#pragma unroll
    for (int v = 0; v < HALF; ++v) wasm_v128_store(some + v * LANES, y[v][p]);
    for (int c = 0; c < count; ++c) {
      const int o = first + c;
      float sum = bend_first(end, o, end.scale[o] * some[c] + end.shift[o]);
      if (end.shortcut != nullptr) sum += end.shortcut[at * end.shortcut_stride + static_cast<std::size_t>(o)];
      some[c] = sum = activate(end, o, sum);
      if (end.out != nullptr) end.out[at * end.out_stride + static_cast<std::size_t>(o)] = sum;
    }
    if (end.codes != nullptr) sign(end, at, first, count, some);
  }
}

}  // namespace

}  // namespace ftbnn
