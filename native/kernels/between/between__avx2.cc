// A lane is a channel; up to four vectors of channels at a time hide the latency of additions. Channels that do not
// fill a vector are done one by one: masked stores cost AMD's cores dozens of operations each.
#include "kernels/between/between.h"
#include "kernels/epilogue/epilogue__avx2.h"

namespace ftbnn {

namespace {

constexpr int BLOCK = 4;  // vectors

#include "kernels/between/curves.h"

struct Columns {
  int first, last;
};

inline Columns inside(const PoolRow& row, int x) {
  const int start = x * row.stride - row.left, end = start + row.kw;
  return {start > 0 ? start : 0, end < row.columns ? end : row.columns};
}

inline float divisor(const PoolRow& row, Columns columns) {
  return row.divisor != 0 ? row.divisor : static_cast<float>(row.rows * (columns.last - columns.first));
}

template <bool IsMax, int Vectors>
inline void pool(const PoolRow& row, int x, int c) {
  const Columns columns = inside(row, x);
  __m256 acc[Vectors];
  for (int v = 0; v < Vectors; ++v) acc[v] = IsMax ? _mm256_set1_ps(-__builtin_inff()) : _mm256_setzero_ps();
  for (int r = 0; r < row.rows; ++r) {
    const float* from = row.in + r * row.row_stride + columns.first * row.in_stride + c;
    for (int k = columns.first; k < columns.last; ++k, from += row.in_stride) {
      for (int v = 0; v < Vectors; ++v) {
        const __m256 value = _mm256_loadu_ps(from + v * LANES);
        acc[v] = IsMax ? _mm256_max_ps(value, acc[v]) : _mm256_add_ps(acc[v], value);
      }
    }
  }
  if (!IsMax) {
    const __m256 count = _mm256_set1_ps(divisor(row, columns));
    for (int v = 0; v < Vectors; ++v) acc[v] = _mm256_div_ps(acc[v], count);
  }
  float* to = row.out + x * row.out_stride + c;
  for (int v = 0; v < Vectors; ++v) _mm256_storeu_ps(to + v * LANES, acc[v]);
  for (int v = 0; row.again != 0 && v < Vectors; ++v) _mm256_storeu_ps(to + row.again + v * LANES, acc[v]);
}

template <bool IsMax>
inline void pool_one(const PoolRow& row, int x, int c) {
  const Columns columns = inside(row, x);
  float acc = IsMax ? -__builtin_inff() : 0.0F;
  for (int r = 0; r < row.rows; ++r) {
    for (int k = columns.first; k < columns.last; ++k) {
      const float value = row.in[r * row.row_stride + k * row.in_stride + c];
      acc = IsMax ? (value > acc ? value : acc) : acc + value;
    }
  }
  float* to = row.out + x * row.out_stride + c;
  to[row.again] = to[0] = IsMax ? acc : acc / divisor(row, columns);
}

template <bool IsMax>
void pool_row(const PoolRow& row) {
  for (int x = 0; x < row.width; ++x) {
    int c = 0;
    for (; c + BLOCK * LANES <= row.channels; c += BLOCK * LANES) pool<IsMax, BLOCK>(row, x, c);
    for (; c + LANES <= row.channels; c += LANES) pool<IsMax, 1>(row, x, c);
    for (; c < row.channels; ++c) pool_one<IsMax>(row, x, c);
  }
}

// Up to 64 signs; with Thresholds, those are not 0.
template <bool Thresholds>
inline std::uint64_t signs(const float* in, const float* threshold, int count) {
  std::uint64_t word = 0;
  int c = 0;
  for (; c + LANES <= count; c += LANES) {
    const __m256 bound = Thresholds ? _mm256_loadu_ps(threshold + c) : _mm256_setzero_ps();
    const int mask = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(in + c), bound, _CMP_GT_OQ));
    word |= static_cast<std::uint64_t>(static_cast<unsigned>(mask)) << c;
  }
  for (; c < count; ++c) word |= static_cast<std::uint64_t>(in[c] > (Thresholds ? threshold[c] : 0.0F)) << c;
  return word;
}

void max_pool_row(const PoolRow& row) { pool_row<true>(row); }

void average_pool_row(const PoolRow& row) { pool_row<false>(row); }

void sign_row(const SignRow& row) {
  for (int x = 0; x < row.width; ++x) {
    const float* in = row.in + x * row.in_stride;
    std::uint64_t* codes = row.codes + x * row.codes_stride;
    for (int c = 0; c < row.channels; c += 64) {
      const int count = row.channels - c < 64 ? row.channels - c : 64;
      *codes++ = row.threshold != nullptr ? signs<true>(in + c, row.threshold + c, count)
                                          : signs<false>(in + c, nullptr, count);
    }
  }
}

template <int Positions>
void pointwise(const PointwiseRow& row, int first, int x) {
  const bool full = row.channels - first >= LANES;
  const __m256i lanes = first_lanes(row.channels - first);
  const float* in = row.in + x * row.in_stride + first;
  __m256 y[Positions];
#pragma GCC unroll 4
  for (int p = 0; p < Positions; ++p) {
    const float* from = in + p * row.in_stride;
    y[p] = full ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, lanes);
  }
  finish(row.end, row.channels, first, static_cast<std::size_t>(x), y);
}

void pointwise_row(const PointwiseRow& row) {
  constexpr int some = 4;
  int x = 0;
  for (; x + some <= row.width; x += some) {
    for (int c = 0; c < row.channels; c += LANES) pointwise<some>(row, c, x);
  }
  for (; x < row.width; ++x) {
    for (int c = 0; c < row.channels; c += LANES) pointwise<1>(row, c, x);
  }
}

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
  for (; x < row.width; ++x) {
    for (int c = 0; c < row.channels; ++c)
      row.out[static_cast<std::size_t>(x) * row.channels + c] = row.in[c * row.plane_stride + x];
  }
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
const BetweenKernels between__avx2 = {max_pool_row,   average_pool_row, sign_row, pointwise_row,
                                      interleave_row, normalise_row,    bend};

}  // namespace ftbnn
