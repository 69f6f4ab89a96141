// A lane is a channel.
#include "kernels/between/between.h"
#include "kernels/epilogue/epilogue__avx2.h"

namespace ftbnn {

namespace {

#include "kernels/between/curves.h"
#include "kernels/between/loops.h"

struct Avx2 {
  using Vector = __m256;
  static constexpr int LANES = 8;
  static Vector load(const float* from) { return _mm256_loadu_ps(from); }
  static void store(float* to, Vector value) { _mm256_storeu_ps(to, value); }
  static Vector splat(float value) { return _mm256_set1_ps(value); }
  static Vector larger(Vector value, Vector than) { return _mm256_max_ps(value, than); }
  static Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
  static Vector divide(Vector a, Vector b) { return _mm256_div_ps(a, b); }

  static constexpr int SIGNS = LANES;
  static unsigned signs(const float* in, const float* bound) {
    const __m256 threshold = bound != nullptr ? load(bound) : _mm256_setzero_ps();
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(load(in), threshold, _CMP_GT_OQ)));
  }

  using Wide = __m256;
  static constexpr int WIDE = LANES;
  static Wide load_some(const float* from, int count) {
    return count >= WIDE ? load(from) : _mm256_maskload_ps(from, first_lanes(count));
  }
};

void interleave_row(const InterleaveRow& row) {
  int x = 0;
  if (row.channels == 3) {
    const __m256i order[3] = {_mm256_setr_epi32(0, 3, 6, 1, 4, 7, 2, 5), _mm256_setr_epi32(5, 0, 3, 6, 1, 4, 7, 2),
                              _mm256_setr_epi32(2, 5, 0, 3, 6, 1, 4, 7)};
    for (; x + LANES <= row.width; x += LANES) {
      // Each channel's eight floats where they belong, three apart; then every vector takes a third of each.
      const float* in = row.in + x;
      const __m256 a = _mm256_permutevar8x32_ps(_mm256_loadu_ps(in), order[0]);
      const __m256 b = _mm256_permutevar8x32_ps(_mm256_loadu_ps(in + row.plane_stride), order[1]);
      const __m256 c = _mm256_permutevar8x32_ps(_mm256_loadu_ps(in + 2 * row.plane_stride), order[2]);
      float* out = row.out + 3 * x;
      _mm256_storeu_ps(out, _mm256_blend_ps(_mm256_blend_ps(a, b, 0x92), c, 0x24));
      _mm256_storeu_ps(out + LANES, _mm256_blend_ps(_mm256_blend_ps(a, b, 0x24), c, 0x49));
      _mm256_storeu_ps(out + 2 * LANES, _mm256_blend_ps(_mm256_blend_ps(a, b, 0x49), c, 0x92));
    }
  }
  interleave_rest(row, x);
}

void normalise_row(const NormaliseRow& row) {
  int k = 0;
  for (; k + LANES <= row.count; k += LANES) {
    const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(row.in + k)));
    const __m256 scale = _mm256_loadu_ps(row.scale + k), shift = _mm256_loadu_ps(row.shift + k);
    _mm256_storeu_ps(row.out + k, _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(bytes), shift));
  }
  for (; k < row.count; ++k) row.out[k] = __builtin_fmaf(row.scale[k], static_cast<float>(row.in[k]), row.shift[k]);
}

}  // namespace

extern const BetweenKernels between__avx2;
const BetweenKernels between__avx2 = {pool_row<Avx2, true>,
                                      pool_row<Avx2, false>,
                                      sign_row<Avx2>,
                                      pointwise_row<Avx2, 4>,
                                      interleave_row,
                                      normalise_row,
                                      bend};

}  // namespace ftbnn
