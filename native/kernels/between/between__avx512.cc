// A lane is a channel, as in the convolutions; four vectors of channels at a time hide the latency of additions.
// Masks of all ones stand where GCC 12 else warns of an uninitialised value in its own header.
#include "kernels/between/between.h"
#include "kernels/epilogue/epilogue__avx512.h"

namespace ftbnn {

namespace {

constexpr int BLOCK = 4;  // vectors

#include "kernels/between/curves.h"
#include "kernels/between/loops.h"

// Masked stores are slow.
template <int Vectors>
inline void put(float* to, __mmask16 lanes, const __m512 (&values)[Vectors]) {
  for (int v = 0; v + 1 < Vectors; ++v) _mm512_storeu_ps(to + v * LANES, values[v]);
  to += (Vectors - 1) * LANES;
  lanes == 0xffff ? _mm512_storeu_ps(to, values[Vectors - 1]) : _mm512_mask_storeu_ps(to, lanes, values[Vectors - 1]);
}

// Vectors of channels from c on; the last one has `lanes`.
template <bool IsMax, int Vectors>
inline void masked_pool(const PoolRow& row, int x, int c, __mmask16 lanes) {
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
    const __m512 count = _mm512_set1_ps(divisor(row, columns));
    for (int v = 0; v < Vectors; ++v) acc[v] = _mm512_div_ps(acc[v], count);
  }
  float* to = row.out + x * row.out_stride + c;
  put(to, lanes, acc);
  if (row.again != 0) put(to + row.again, lanes, acc);
}

template <bool IsMax>
void masked_pool_row(const PoolRow& row) {
  for (int x = 0; x < row.width; ++x) {
    int c = 0;
    for (; row.channels - c >= BLOCK * LANES; c += BLOCK * LANES) masked_pool<IsMax, BLOCK>(row, x, c, 0xffff);
    const int rest = row.channels - c;
    const __mmask16 lanes = first_lanes(rest % LANES == 0 ? LANES : rest % LANES);
    switch ((rest + LANES - 1) / LANES) {
      case 4:
        masked_pool<IsMax, 4>(row, x, c, lanes);
        break;
      case 3:
        masked_pool<IsMax, 3>(row, x, c, lanes);
        break;
      case 2:
        masked_pool<IsMax, 2>(row, x, c, lanes);
        break;
      case 1:
        masked_pool<IsMax, 1>(row, x, c, lanes);
        break;
      default:
        break;
    }
  }
}

// Up to 64 signs; with Thresholds, those are not 0.
template <bool Thresholds>
inline std::uint64_t masked_signs(const float* in, const float* threshold, int count) {
  std::uint64_t word = 0;
  for (int c = 0; c < count; c += LANES) {
    const __mmask16 lanes = first_lanes(count - c);
    const __m512 value = _mm512_maskz_loadu_ps(lanes, in + c);
    const __m512 bound = Thresholds ? _mm512_maskz_loadu_ps(lanes, threshold + c) : _mm512_setzero_ps();
    word |= static_cast<std::uint64_t>(_mm512_mask_cmp_ps_mask(lanes, value, bound, _CMP_GT_OQ)) << c;
  }
  return word;
}

// 64 signs without a loop.
inline std::uint64_t signs64(const float* in) {
  const __m512 zero = _mm512_setzero_ps();
  const std::uint64_t a = _mm512_cmp_ps_mask(_mm512_loadu_ps(in), zero, _CMP_GT_OQ);
  const std::uint64_t b = _mm512_cmp_ps_mask(_mm512_loadu_ps(in + LANES), zero, _CMP_GT_OQ);
  const std::uint64_t c = _mm512_cmp_ps_mask(_mm512_loadu_ps(in + 2 * LANES), zero, _CMP_GT_OQ);
  const std::uint64_t d = _mm512_cmp_ps_mask(_mm512_loadu_ps(in + 3 * LANES), zero, _CMP_GT_OQ);
  return (a | b << 16) | (c | d << 16) << 32;
}

void masked_sign_row(const SignRow& row) {
  for (int x = 0; x < row.width; ++x) {
    const float* in = row.in + x * row.in_stride;
    std::uint64_t* codes = row.codes + x * row.codes_stride;
    for (int c = 0; c < row.channels; c += 64, ++codes) {
      const int count = row.channels - c < 64 ? row.channels - c : 64;
      if (row.threshold != nullptr) {
        *codes = masked_signs<true>(in + c, row.threshold + c, count);
      } else {
        *codes = count == 64 ? signs64(in + c) : masked_signs<false>(in + c, nullptr, count);
      }
    }
  }
}

struct Avx512 {
  using Wide = __m512;
  static constexpr int WIDE = LANES;
  static Wide load_some(const float* from, int count) { return _mm512_maskz_loadu_ps(first_lanes(count), from); }
};

void interleave_row(const InterleaveRow& row) {
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
  interleave_rest(row, x);
}

void normalise_row(const NormaliseRow& row) {
  for (int k = 0; k < row.count; k += LANES) {
    const __mmask16 lanes = first_lanes(row.count - k);
    const __m512i bytes = _mm512_maskz_cvtepu8_epi32(0xffff, _mm_maskz_loadu_epi8(lanes, row.in + k));
    const __m512 scale = _mm512_maskz_loadu_ps(lanes, row.scale + k),
                 shift = _mm512_maskz_loadu_ps(lanes, row.shift + k);
    _mm512_mask_storeu_ps(row.out + k, lanes, _mm512_fmadd_ps(scale, _mm512_maskz_cvtepi32_ps(0xffff, bytes), shift));
  }
}

}  // namespace

extern const BetweenKernels between__avx512;
const BetweenKernels between__avx512 = {masked_pool_row<true>,
                                        masked_pool_row<false>,
                                        masked_sign_row,
                                        pointwise_row<Avx512, 8>,
                                        interleave_row,
                                        normalise_row,
                                        bend};

}  // namespace ftbnn
