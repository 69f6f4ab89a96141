// A lane is an output channel, a tile some positions of the row, as with AVX-512. Bits are counted by nibble: vpshufb
// looks them up in a table of 16 counts, bytes take the sums, and vpsadbw adds up the bytes of a lane before they
// overflow. Nibbles are cut out of inputs and weights before they meet, which takes 6 operations in place of 8.
#include "kernels/bconv/words.h"
#include "kernels/epilogue/epilogue__avx2.h"

namespace ftbnn {

namespace {

constexpr int BIT_TILE = 7;  // x 1 vector of 4 words: 7 accumulators, 2 halves of a weight, 2 of an input, the table
constexpr int BLOCK = 31;    // words whose counts, 8 a byte at most, fit into bytes

// The part of a window whose counts fit into bytes: `rows` rows of taps from ky on, `run` words of each from `at` on.
struct Block {
  int ky, rows, at, run;
};

// Inputs of a block, cut into nibbles once for all channels. Windows that overlap share their words.
struct Nibbles {
  std::size_t step, row_stride;
  std::uint64_t low[BIT_TILE * BLOCK], high[BIT_TILE * BLOCK];
};

inline void split(const std::uint64_t* in, std::size_t count, std::uint64_t* low, std::uint64_t* high) {
  constexpr std::uint64_t nibbles = 0x0f0f0f0f0f0f0f0f;
  for (std::size_t k = 0; k < count; ++k) {
    low[k] = in[k] & nibbles;
    high[k] = in[k] >> 4 & nibbles;
  }
}

template <int Positions>
inline void split(const BConvRow& row, int x, const Block& block, Nibbles& to) {
  const std::size_t step = static_cast<std::size_t>(row.stride) * row.words, run = block.run;
  to.step = step < run ? step : run;
  to.row_stride = (Positions - 1) * to.step + run;
  for (int r = 0; r < block.rows; ++r) {
    const std::uint64_t* in = row.in + (block.ky + r) * row.row_stride + x * step + block.at;
    std::uint64_t *low = to.low + r * to.row_stride, *high = to.high + r * to.row_stride;
    if (step <= run) {
      split(in, to.row_stride, low, high);
    } else {
      for (int p = 0; p < Positions; ++p) split(in + p * step, run, low + p * run, high + p * run);
    }
  }
}

template <bool ZeroOne>
inline __m256i hits(__m256i a, __m256i b) {
  return ZeroOne ? _mm256_and_si256(a, b) : _mm256_xor_si256(a, b);
}

// Bits of four channels in one block. Step, where not 0, is words as a constant, and the window has three columns and
// stride 1: short loops of known length gain 15 % with 64 channels.
template <bool ZeroOne, int Step, int Positions>
inline void count(const Nibbles& in, const Block& block, const std::uint64_t* w, __m256i (&bytes)[Positions]) {
  const __m256i counts = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
  const __m256i nibbles = _mm256_set1_epi8(0x0f);
  const std::size_t step = Step != 0 ? Step : in.step;
  const int run = Step != 0 ? 3 * Step : block.run;
#pragma GCC unroll 8
  for (int p = 0; p < Positions; ++p) bytes[p] = _mm256_setzero_si256();
  for (int r = 0; r < block.rows; ++r) {
    const std::uint64_t *low = in.low + r * in.row_stride, *high = in.high + r * in.row_stride;
    for (int k = 0; k < run; ++k, ++low, ++high, w += PANEL) {
      const __m256i word = _mm256_load_si256(reinterpret_cast<const __m256i*>(w));
      const __m256i w0 = _mm256_and_si256(word, nibbles), w1 = _mm256_and_si256(_mm256_srli_epi64(word, 4), nibbles);
#pragma GCC unroll 8
      for (int p = 0; p < Positions; ++p) {
        const __m256i in0 = _mm256_set1_epi64x(static_cast<long long>(low[p * step]));
        const __m256i in1 = _mm256_set1_epi64x(static_cast<long long>(high[p * step]));
        bytes[p] = _mm256_add_epi8(bytes[p], _mm256_shuffle_epi8(counts, hits<ZeroOne>(in0, w0)));
        bytes[p] = _mm256_add_epi8(bytes[p], _mm256_shuffle_epi8(counts, hits<ZeroOne>(in1, w1)));
        __asm__("" : "+x"(bytes[p]), "+r"(low));  // or GCC mixes positions, for which there are not enough registers
      }
    }
  }
}

template <bool ZeroOne, int Step, int Positions>
void bconv_tile(const BConvRow& row, int x) {
  const int run = row.kw * row.words, parts = (run + BLOCK - 1) / BLOCK, vectors = (row.channels + 7) / 8 * 2;
  __m256i pop[PANEL / 4][Positions];
  bool empty = true;
  for (int ky = 0, rows; ky < row.kh; ky += rows) {
    rows = parts > 1 ? 1 : BLOCK / run < row.kh - ky ? BLOCK / run : row.kh - ky;
    for (int part = 0; part < parts; ++part) {
      const int at = run * part / parts;
      const Block block = {ky, rows, at, run * (part + 1) / parts - at};
      const std::uint64_t* w = row.weights + (static_cast<std::size_t>(ky) * run + at) * PANEL;
      Nibbles in;
      split<Positions>(row, x, block, in);
      for (int v = 0; v < vectors; ++v) {
        __m256i bytes[Positions];
        count<ZeroOne, Step>(in, block, w + v * 4, bytes);
#pragma GCC unroll 8
        for (int p = 0; p < Positions; ++p) {
          const __m256i sums = _mm256_sad_epu8(bytes[p], _mm256_setzero_si256());
          pop[v][p] = empty ? sums : _mm256_add_epi64(pop[v][p], sums);
        }
      }
      empty = false;
    }
  }
  for (int v = 0; v < vectors; v += 2) {
    __m256 acc[Positions];
#pragma GCC unroll 8
    for (int p = 0; p < Positions; ++p) {
      const __m256i pairs = _mm256_castps_si256(_mm256_shuffle_ps(
          _mm256_castsi256_ps(pop[v][p]), _mm256_castsi256_ps(pop[v + 1][p]), _MM_SHUFFLE(2, 0, 2, 0)));
      const __m256i count = _mm256_permute4x64_epi64(pairs, _MM_SHUFFLE(3, 1, 2, 0)),
                    twice = _mm256_add_epi32(count, count);
      __m256i sum;
      if (ZeroOne) {
        sum = _mm256_sub_epi32(twice, _mm256_set1_epi32(row.ones[x + p]));
      } else {
        const std::int32_t* base = row.base + row.border[x + p] * PANEL + v * 4;
        sum = _mm256_sub_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(base)), twice);
      }
      acc[p] = _mm256_cvtepi32_ps(sum);
    }
    finish(row.end, row.channels, v * 4, x, acc);
  }
}

// Cuts the row into as few tiles as it takes, of nearly equal sizes; tiles[n - 1] does n positions.
void cut(const BConvRow& row, void (*const (&tiles)[BIT_TILE])(const BConvRow&, int)) {
  const int count = (row.width + BIT_TILE - 1) / BIT_TILE;
  for (int tile = 0, x = 0; tile < count; ++tile) {
    const int positions = (row.width - x) / (count - tile);
    tiles[positions - 1](row, x);
    x += positions;
  }
}

template <bool ZeroOne, int Step>
void bconv_row(const BConvRow& row) {
  static constexpr void (*tiles[BIT_TILE])(const BConvRow&, int) = {
      bconv_tile<ZeroOne, 0, 1>, bconv_tile<ZeroOne, 0, 2>, bconv_tile<ZeroOne, 0, 3>,    bconv_tile<ZeroOne, 0, 4>,
      bconv_tile<ZeroOne, 0, 5>, bconv_tile<ZeroOne, 0, 6>, bconv_tile<ZeroOne, Step, 7>,
  };
  cut(row, tiles);
}

template <bool ZeroOne>
void bconv_row(const BConvRow& row) {
  switch (row.kw == 3 && row.stride == 1 ? row.words : 0) {
    case 1:
      return bconv_row<ZeroOne, 1>(row);
    case 2:
      return bconv_row<ZeroOne, 2>(row);
    case 4:
      return bconv_row<ZeroOne, 4>(row);
    case 8:
      return bconv_row<ZeroOne, 8>(row);
    default:
      return bconv_row<ZeroOne, 0>(row);
  }
}

void row(const BConvRow& row) { row.zero_one ? bconv_row<true>(row) : bconv_row<false>(row); }

void ones(const OnesRow& row) {
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

}  // namespace

extern const WordKernels words__avx2;
const WordKernels words__avx2 = {row, ones};

}  // namespace ftbnn
