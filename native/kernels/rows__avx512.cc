// A lane is a channel, as in the convolutions; four vectors of channels at a time hide the latency of additions.
// Masks of all ones stand where GCC 12 else warns of an uninitialised value in its own header.
#include <immintrin.h>

#include "kernels/rows.h"

namespace ftbnn {

namespace {

constexpr int LANES = 16;
constexpr int BLOCK = 4;  // vectors

inline __mmask16 first_lanes(int count) { return count >= LANES ? 0xffff : static_cast<__mmask16>((1U << count) - 1); }

struct Columns {
  int first, last;
};

inline Columns inside(const PoolRow& row, int x) {
  const int start = x * row.stride - row.left, end = start + row.kw;
  return {start > 0 ? start : 0, end < row.columns ? end : row.columns};
}

// Vectors of channels from c on; the last one has `lanes`.
template <bool IsMax, int Vectors>
inline void pool(const PoolRow& row, int x, int c, __mmask16 lanes) {
  const Columns columns = inside(row, x);
  __m512 acc[Vectors];
  for (int v = 0; v < Vectors; ++v) acc[v] = IsMax ? _mm512_set1_ps(-__builtin_inff()) : _mm512_setzero_ps();
  for (int r = 0; r < row.rows; ++r) {
    const float* from = row.in + r * row.row_stride + columns.first * row.in_stride + c;
    for (int k = columns.first; k < columns.last; ++k, from += row.in_stride) {
      for (int v = 0; v < Vectors; ++v) {
        const __m512 value =
            v + 1 < Vectors ? _mm512_loadu_ps(from + v * LANES) : _mm512_maskz_loadu_ps(lanes, from + v * LANES);
        acc[v] = IsMax ? _mm512_maskz_max_ps(0xffff, value, acc[v]) : _mm512_add_ps(acc[v], value);
      }
    }
  }
  if (!IsMax) {
    const int count = row.rows * (columns.last - columns.first);
    const __m512 divisor = _mm512_set1_ps(row.divisor != 0 ? row.divisor : static_cast<float>(count));
    for (int v = 0; v < Vectors; ++v) acc[v] = _mm512_div_ps(acc[v], divisor);
  }
  float* to = row.out + x * row.out_stride + c;
  for (int v = 0; v + 1 < Vectors; ++v) _mm512_storeu_ps(to + v * LANES, acc[v]);
  _mm512_mask_storeu_ps(to + (Vectors - 1) * LANES, lanes, acc[Vectors - 1]);
}

template <bool IsMax>
void pool_row(const PoolRow& row) {
  for (int x = 0; x < row.width; ++x) {
    int c = 0;
    for (; row.channels - c >= BLOCK * LANES; c += BLOCK * LANES) pool<IsMax, BLOCK>(row, x, c, 0xffff);
    const int rest = row.channels - c;
    const __mmask16 lanes = first_lanes(rest % LANES == 0 ? LANES : rest % LANES);
    switch ((rest + LANES - 1) / LANES) {
      case 4:
        pool<IsMax, 4>(row, x, c, lanes);
        break;
      case 3:
        pool<IsMax, 3>(row, x, c, lanes);
        break;
      case 2:
        pool<IsMax, 2>(row, x, c, lanes);
        break;
      case 1:
        pool<IsMax, 1>(row, x, c, lanes);
        break;
      default:
        break;
    }
  }
}

inline std::uint64_t signs(const float* in, int count) {
  const __m512 zero = _mm512_setzero_ps();
  std::uint64_t word = 0;
  for (int c = 0; c < count; c += LANES) {
    const __m512 value = _mm512_maskz_loadu_ps(first_lanes(count - c), in + c);
    word |= static_cast<std::uint64_t>(_mm512_cmp_ps_mask(value, zero, _CMP_GT_OQ)) << c;
  }
  return word;
}

// signs(in, 64) without a loop.
inline std::uint64_t signs64(const float* in) {
  const __m512 zero = _mm512_setzero_ps();
  const std::uint64_t a = _mm512_cmp_ps_mask(_mm512_loadu_ps(in), zero, _CMP_GT_OQ);
  const std::uint64_t b = _mm512_cmp_ps_mask(_mm512_loadu_ps(in + LANES), zero, _CMP_GT_OQ);
  const std::uint64_t c = _mm512_cmp_ps_mask(_mm512_loadu_ps(in + 2 * LANES), zero, _CMP_GT_OQ);
  const std::uint64_t d = _mm512_cmp_ps_mask(_mm512_loadu_ps(in + 3 * LANES), zero, _CMP_GT_OQ);
  return (a | b << 16) | (c | d << 16) << 32;
}

}  // namespace

void max_pool_row__avx512(const PoolRow& row) { pool_row<true>(row); }

void average_pool_row__avx512(const PoolRow& row) { pool_row<false>(row); }

void sign_row__avx512(const SignRow& row) {
  const int shift = row.at % 64;
  for (int x = 0; x < row.width; ++x) {
    const float* in = row.in + x * row.in_stride;
    std::uint64_t* codes = row.codes + x * row.codes_stride + row.at / 64;
    std::uint64_t open = shift != 0 ? *codes & ((std::uint64_t{1} << shift) - 1) : 0;
    for (int c = 0; c < row.channels; c += 64, ++codes) {
      const int count = row.channels - c < 64 ? row.channels - c : 64;
      const std::uint64_t word = count == 64 ? signs64(in + c) : signs(in + c, count);
      codes[0] = open | word << shift;
      if (shift == 0) continue;
      open = word >> (64 - shift);
      if (shift + count > 64) codes[1] = open;
    }
  }
}

void ones_row__avx512(const OnesRow& row) {
  const int columns = (row.width - 1) * row.stride + row.kw;
  if (row.words == 1) {
    for (int x = 0; x < columns; x += 8) {
      const __mmask8 lanes = columns - x >= 8 ? 0xff : static_cast<__mmask8>((1U << (columns - x)) - 1);
      __m512i sum = _mm512_setzero_si512();
      for (int ky = 0; ky < row.kh; ++ky) {
        const __m512i words = _mm512_maskz_loadu_epi64(lanes, row.in + ky * row.row_stride + x);
        sum = _mm512_add_epi64(sum, _mm512_popcnt_epi64(words));
      }
      _mm256_mask_storeu_epi32(row.columns + x, lanes, _mm512_maskz_cvtepi64_epi32(0xff, sum));
    }
  } else {
    for (int x = 0; x < columns; ++x) {
      long long sum = 0;
      for (int ky = 0; ky < row.kh; ++ky) {
        const std::uint64_t* in = row.in + ky * row.row_stride + static_cast<std::size_t>(x) * row.words;
        for (int k = 0; k < row.words; ++k) sum += __builtin_popcountll(in[k]);
      }
      row.columns[x] = static_cast<std::int32_t>(sum);
    }
  }
  for (int x = 0; x < row.width; ++x) {
    std::int32_t sum = 0;
    for (int kx = 0; kx < row.kw; ++kx) sum += row.columns[x * row.stride + kx];
    row.ones[x] = sum;
  }
}

void pointwise_row__avx512(const PointwiseRow& row) {
  const Epilogue& end = row.end;
  const __m512 zero = _mm512_setzero_ps();
  for (int c = 0; c < row.channels; c += LANES) {
    const __mmask16 lanes = first_lanes(row.channels - c);
    const __m512 scale = _mm512_maskz_loadu_ps(lanes, end.scale + c),
                 shift = _mm512_maskz_loadu_ps(lanes, end.shift + c);
    const bool is_sloped = end.act == Act::prelu || end.act == Act::fprelu;
    const __m512 left = is_sloped ? _mm512_maskz_loadu_ps(lanes, end.left + c) : zero;
    const __m512 right = end.act == Act::fprelu ? _mm512_maskz_loadu_ps(lanes, end.right + c) : zero;
    for (int x = 0; x < row.width; ++x) {
      __m512 y = _mm512_fmadd_ps(scale, _mm512_maskz_loadu_ps(lanes, row.in + x * row.in_stride + c), shift);
      if (end.shortcut != nullptr) {
        y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(lanes, end.shortcut + x * end.shortcut_stride + c));
      }
      const __mmask16 positive = _mm512_cmp_ps_mask(y, zero, _CMP_GT_OQ);
      if (end.act == Act::relu) y = _mm512_maskz_mov_ps(positive, y);
      if (end.act == Act::prelu) y = _mm512_mask_mul_ps(y, static_cast<__mmask16>(~positive), y, left);
      if (end.act == Act::fprelu) y = _mm512_mul_ps(y, _mm512_mask_blend_ps(positive, left, right));
      _mm512_mask_storeu_ps(end.out + x * end.out_stride + c, lanes, y);
    }
  }
}

void interleave_row__avx512(const InterleaveRow& row) {
  int x = 0;
  if (row.channels == 3) {
    // Element k of the row is channel k % 3 of position k / 3: first two channels, then the third into the gaps.
    __m512i two[3], three[3];
    for (int v = 0; v < 3; ++v) {
      alignas(64) std::int32_t a[LANES], b[LANES];
      for (int k = 0; k < LANES; ++k) {
        const int at = v * LANES + k;
        a[k] = at % 3 == 1 ? LANES + at / 3 : at / 3;
        b[k] = at % 3 == 2 ? LANES + at / 3 : k;
      }
      two[v] = _mm512_load_si512(a);
      three[v] = _mm512_load_si512(b);
    }
    for (; x + LANES <= row.width; x += LANES) {
      const float* in = row.in + x;
      const __m512 c0 = _mm512_loadu_ps(in), c1 = _mm512_loadu_ps(in + row.plane_stride),
                   c2 = _mm512_loadu_ps(in + 2 * row.plane_stride);
      for (int v = 0; v < 3; ++v) {
        const __m512 pairs = _mm512_permutex2var_ps(c0, two[v], c1);
        _mm512_storeu_ps(row.out + 3 * x + v * LANES, _mm512_permutex2var_ps(pairs, three[v], c2));
      }
    }
  }
  for (; x < row.width; ++x) {
    for (int c = 0; c < row.channels; ++c)
      row.out[static_cast<std::size_t>(x) * row.channels + c] = row.in[c * row.plane_stride + x];
  }
}

void normalise_row__avx512(const NormaliseRow& row) {
  for (int k = 0; k < row.count; k += LANES) {
    const __mmask16 lanes = first_lanes(row.count - k);
    const __m512i bytes = _mm512_maskz_cvtepu8_epi32(0xffff, _mm_maskz_loadu_epi8(lanes, row.in + k));
    const __m512 scale = _mm512_maskz_loadu_ps(lanes, row.scale + k),
                 shift = _mm512_maskz_loadu_ps(lanes, row.shift + k);
    _mm512_mask_storeu_ps(row.out + k, lanes, _mm512_fmadd_ps(scale, _mm512_maskz_cvtepi32_ps(0xffff, bytes), shift));
  }
}

}  // namespace ftbnn
