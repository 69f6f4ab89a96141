// A lane is a channel. Nothing is fused, so it gives portable's bits.
#include "kernels/between/between.h"
#include "kernels/epilogue/epilogue__simd128.h"

namespace ftbnn {

namespace {

#include "kernels/between/curves.h"
#include "kernels/between/loops.h"

struct Simd128 {
  using Vector = v128_t;
  static constexpr int LANES = 4;
  static Vector load(const float* from) { return wasm_v128_load(from); }
  static void store(float* to, Vector value) { wasm_v128_store(to, value); }
  static Vector splat(float value) { return wasm_f32x4_splat(value); }
  static Vector larger(Vector value, Vector than) { return wasm_f32x4_pmax(than, value); }
  static Vector add(Vector a, Vector b) { return wasm_f32x4_add(a, b); }
  static Vector divide(Vector a, Vector b) { return wasm_f32x4_div(a, b); }

  static constexpr int SIGNS = LANES;
  static unsigned signs(const float* in, const float* bound) {
    const Vector threshold = bound != nullptr ? load(bound) : wasm_f32x4_const_splat(0);
    return wasm_i32x4_bitmask(wasm_f32x4_gt(load(in), threshold));
  }
};

void pointwise_row(const PointwiseRow& row) {
  constexpr int channels = HALF * LANES;
  for (int x = 0; x < row.width; ++x) {
    for (int first = 0; first < row.channels; first += channels) {
      const float* in = row.in + x * row.in_stride + first;
      float some[channels];
      const int count = row.channels - first;
      for (int c = 0; count < channels && c < channels; ++c) some[c] = c < count ? in[c] : 0;
      v128_t y[HALF][1];
      for (int v = 0; v < HALF; ++v) y[v][0] = wasm_v128_load((count < channels ? some : in) + v * LANES);
      finish(row.end, row.channels, first, static_cast<std::size_t>(x), y);
    }
  }
}

void interleave_row(const InterleaveRow& row) { interleave_rest(row, 0); }

void normalise_row(const NormaliseRow& row) {
  int k = 0;
  for (; k + 2 * LANES <= row.count; k += 2 * LANES) {
    const v128_t words = wasm_u16x8_load8x8(row.in + k);
    const v128_t halves[] = {wasm_u32x4_extend_low_u16x8(words), wasm_u32x4_extend_high_u16x8(words)};
    for (int h = 0; h < 2; ++h) {
      const int at = k + h * LANES;
      const v128_t scaled = wasm_f32x4_mul(wasm_v128_load(row.scale + at), wasm_f32x4_convert_u32x4(halves[h]));
      wasm_v128_store(row.out + at, wasm_f32x4_add(scaled, wasm_v128_load(row.shift + at)));
    }
  }
  for (; k < row.count; ++k) row.out[k] = row.scale[k] * static_cast<float>(row.in[k]) + row.shift[k];
}

}  // namespace

extern const BetweenKernels between__simd128;
const BetweenKernels between__simd128 = {pool_row<Simd128, true>,
                                         pool_row<Simd128, false>,
                                         sign_row<Simd128>,
                                         pointwise_row,
                                         interleave_row,
                                         normalise_row,
                                         bend};

}  // namespace ftbnn
