// A lane is a channel.
#include "kernels/between/between.h"
#include "kernels/epilogue/epilogue__neon.h"

namespace ftbnn {

namespace {

#include "kernels/between/curves.h"
#include "kernels/between/loops.h"

struct Neon {
  using Vector = float32x4_t;
  static constexpr int LANES = 4;
  static Vector load(const float* from) { return vld1q_f32(from); }
  static void store(float* to, Vector value) { vst1q_f32(to, value); }
  static Vector splat(float value) { return vdupq_n_f32(value); }
  // By comparison, as everywhere: FMAX would choose among zeros and pass on what is not a number.
  static Vector larger(Vector value, Vector than) { return vbslq_f32(vcgtq_f32(value, than), value, than); }
  static Vector add(Vector a, Vector b) { return vaddq_f32(a, b); }
  static Vector divide(Vector a, Vector b) { return vdivq_f32(a, b); }

  using Wide = Floats;
  static constexpr int WIDE = ftbnn::LANES, SIGNS = WIDE;
  static unsigned signs(const float* in, const float* bound) {
    return signs_of(load_floats(in), bound != nullptr ? load_floats(bound) : Floats{});
  }
  static Wide load_some(const float* from, int count) {
    return count >= WIDE ? load_floats(from) : ftbnn::load_some(from, count);
  }
};

void interleave_row(const InterleaveRow& row) {
  int x = 0;
  if (row.channels == 3) {
    for (; x + 4 <= row.width; x += 4) {
      const float* in = row.in + x;
      const float32x4x3_t planes = {
          {vld1q_f32(in), vld1q_f32(in + row.plane_stride), vld1q_f32(in + 2 * row.plane_stride)}};
      vst3q_f32(row.out + 3 * x, planes);  // a macro in Clang, which takes no braces
    }
  }
  interleave_rest(row, x);
}

void normalise_row(const NormaliseRow& row) {
  int k = 0;
  for (; k + 8 <= row.count; k += 8) {
    const uint16x8_t bytes = vmovl_u8(vld1_u8(row.in + k));
    const float32x4_t low = vcvtq_f32_u32(vmovl_u16(vget_low_u16(bytes))), high = vcvtq_f32_u32(vmovl_high_u16(bytes));
    vst1q_f32(row.out + k, vfmaq_f32(vld1q_f32(row.shift + k), vld1q_f32(row.scale + k), low));
    vst1q_f32(row.out + k + 4, vfmaq_f32(vld1q_f32(row.shift + k + 4), vld1q_f32(row.scale + k + 4), high));
  }
  for (; k < row.count; ++k) row.out[k] = __builtin_fmaf(row.scale[k], static_cast<float>(row.in[k]), row.shift[k]);
}

}  // namespace

extern const BetweenKernels between__neon;
const BetweenKernels between__neon = {pool_row<Neon, true>,
                                      pool_row<Neon, false>,
                                      sign_row<Neon>,
                                      pointwise_row<Neon, 4>,
                                      interleave_row,
                                      normalise_row,
                                      bend};

}  // namespace ftbnn
