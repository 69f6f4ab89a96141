// A lane is a channel; up to four vectors of channels at a time hide the latency of additions. Channels that do not
// fill a vector are done one by one: masked stores cost AMD's cores dozens of operations each.
#include <immintrin.h>

#include "kernels/rows.h"

namespace ftbnn {

namespace {

constexpr int LANES = 8;
constexpr int BLOCK = 4;  // vectors

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
  row.out[x * row.out_stride + c] = IsMax ? acc : acc / divisor(row, columns);
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

inline std::uint64_t signs(const float* in, int count) {
  const __m256 zero = _mm256_setzero_ps();
  std::uint64_t word = 0;
  int c = 0;
  for (; c + LANES <= count; c += LANES) {
    const int mask = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(in + c), zero, _CMP_GT_OQ));
    word |= static_cast<std::uint64_t>(static_cast<unsigned>(mask)) << c;
  }
  for (; c < count; ++c) word |= static_cast<std::uint64_t>(in[c] > 0) << c;
  return word;
}

}  // namespace

void max_pool_row__avx2(const PoolRow& row) { pool_row<true>(row); }

void average_pool_row__avx2(const PoolRow& row) { pool_row<false>(row); }

void sign_row__avx2(const SignRow& row) {
  const int shift = row.at % 64;
  for (int x = 0; x < row.width; ++x) {
    const float* in = row.in + x * row.in_stride;
    std::uint64_t* codes = row.codes + x * row.codes_stride + row.at / 64;
    std::uint64_t open = shift != 0 ? *codes & ((std::uint64_t{1} << shift) - 1) : 0;
    for (int c = 0; c < row.channels; c += 64, ++codes) {
      const int count = row.channels - c < 64 ? row.channels - c : 64;
      const std::uint64_t word = signs(in + c, count);
      codes[0] = open | word << shift;
      if (shift == 0) continue;
      open = word >> (64 - shift);
      if (shift + count > 64) codes[1] = open;
    }
  }
}

void ones_row__avx2(const OnesRow& row) {
  const int columns = (row.width - 1) * row.stride + row.kw;
  for (int x = 0; x < columns; ++x) {
    long long sum = 0;
    for (int ky = 0; ky < row.kh; ++ky) {
      const std::uint64_t* in = row.in + ky * row.row_stride + static_cast<std::size_t>(x) * row.words;
      for (int k = 0; k < row.words; ++k) sum += __builtin_popcountll(in[k]);
    }
    row.columns[x] = static_cast<std::int32_t>(sum);
  }
  for (int x = 0; x < row.width; ++x) {
    std::int32_t sum = 0;
    for (int kx = 0; kx < row.kw; ++kx) sum += row.columns[x * row.stride + kx];
    row.ones[x] = sum;
  }
}

void pointwise_row__avx2(const PointwiseRow& row) {
  const Epilogue& end = row.end;
  const __m256 zero = _mm256_setzero_ps();
  const bool is_sloped = end.act == Act::prelu || end.act == Act::fprelu;
  int c = 0;
  for (; c + LANES <= row.channels; c += LANES) {
    const __m256 scale = _mm256_loadu_ps(end.scale + c), shift = _mm256_loadu_ps(end.shift + c);
    const __m256 left = is_sloped ? _mm256_loadu_ps(end.left + c) : zero;
    const __m256 right = end.act == Act::fprelu ? _mm256_loadu_ps(end.right + c) : zero;
    for (int x = 0; x < row.width; ++x) {
      __m256 y = _mm256_fmadd_ps(scale, _mm256_loadu_ps(row.in + x * row.in_stride + c), shift);
      if (end.shortcut != nullptr) y = _mm256_add_ps(y, _mm256_loadu_ps(end.shortcut + x * end.shortcut_stride + c));
      const __m256 positive = _mm256_cmp_ps(y, zero, _CMP_GT_OQ);
      if (end.act == Act::relu) y = _mm256_and_ps(y, positive);
      if (end.act == Act::prelu) y = _mm256_blendv_ps(_mm256_mul_ps(left, y), y, positive);
      if (end.act == Act::fprelu) y = _mm256_mul_ps(y, _mm256_blendv_ps(left, right, positive));
      _mm256_storeu_ps(end.out + x * end.out_stride + c, y);
    }
  }
  for (int x = 0; x < row.width; ++x) {
    for (int k = c; k < row.channels; ++k) {
      float y = __builtin_fmaf(end.scale[k], row.in[x * row.in_stride + k], end.shift[k]);
      if (end.shortcut != nullptr) y += end.shortcut[x * end.shortcut_stride + k];
      end.out[x * end.out_stride + k] = activate(end, k, y);
    }
  }
}

void interleave_row__avx2(const InterleaveRow& row) {
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

void normalise_row__avx2(const NormaliseRow& row) {
  int k = 0;
  for (; k + LANES <= row.count; k += LANES) {
    const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(row.in + k)));
    const __m256 scale = _mm256_loadu_ps(row.scale + k), shift = _mm256_loadu_ps(row.shift + k);
    _mm256_storeu_ps(row.out + k, _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(bytes), shift));
  }
  for (; k < row.count; ++k) row.out[k] = __builtin_fmaf(row.scale[k], static_cast<float>(row.in[k]), row.shift[k]);
}

}  // namespace ftbnn
