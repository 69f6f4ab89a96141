// Nibbles by i8x16.swizzle, which gives 0 for indices that are too large: on x86 two instructions more.
#include <wasm_simd128.h>

namespace ftbnn {

namespace {

inline v128_t look_up(v128_t table, v128_t indices) { return wasm_i8x16_swizzle(table, indices); }

}  // namespace

}  // namespace ftbnn

#include "kernels/bconv/words__nibbles128.h"

namespace ftbnn {

extern const WordKernels words__simd128;
const WordKernels words__simd128 = {1, MOST_PANELS, can, can, rows, split};

}  // namespace ftbnn
