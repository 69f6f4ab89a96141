// Nibbles by i8x16.relaxed_swizzle: one instruction, and of indices below 16 the same result on every CPU.
#include <wasm_simd128.h>

namespace ftbnn {

namespace {

inline v128_t look_up(v128_t table, v128_t indices) {
  return static_cast<v128_t>(
      __builtin_wasm_relaxed_swizzle_i8x16(static_cast<__i8x16>(table), static_cast<__i8x16>(indices)));
}

}  // namespace

}  // namespace ftbnn

#include "kernels/bconv/words__nibbles128.h"

namespace ftbnn {

extern const WordKernels words__relaxed;
const WordKernels words__relaxed = {1, MOST_PANELS, can, can, rows, split};

}  // namespace ftbnn
