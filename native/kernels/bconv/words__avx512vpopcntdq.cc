// A lane is an output channel, a tile some positions of the row, so sums never cross lanes and the epilogue starts
// from registers. Words are of 32 bits (16 channels a vector) or of 64 (8 channels), whichever takes fewer vectors.
#include "kernels/bconv/words.h"

#include "kernels/epilogue/epilogue__avx512.h"

namespace ftbnn {

namespace {

// Rows are 7, 14, 28, 56 or 112 wide in most networks, so the largest tiles leave no tail there.
constexpr int BIT_TILE = 7;
constexpr int VECTORS = 2;  // x 7 positions are counted at a time: registers are left, so that loads run ahead

// What a vector is for words of 32 and of 64 bits. Sums are added in assembly, or GCC 12 moves them from register to
// register, a tenth of the time.
struct Words32 {
  typedef int Unaligned __attribute__((aligned(1), may_alias));
  static constexpr int LANES = 16, BYTES = 4;
  static __m512i spread(const std::uint8_t* in) {
    return _mm512_set1_epi32(*reinterpret_cast<const Unaligned*>(in));
  }
  static __m512i spread_mask(std::uint64_t mask) { return _mm512_set1_epi32(static_cast<int>(mask)); }
  static __m512i count(__m512i hits) { return _mm512_popcnt_epi32(hits); }
  static __m512i count(__m512i hits, __mmask16 lanes) { return _mm512_maskz_popcnt_epi32(lanes, hits); }
  static void add(__m512i& sum, __m512i count) { __asm__("vpaddd %1, %0, %0" : "+v"(sum) : "v"(count)); }
  // The counts of 16 channels, of which vector First is the first.
  template <int First>
  static __m512i channels(const __m512i (&pop)[VECTORS]) {
    return pop[First];
  }
};

struct Words64 {
  typedef long long Unaligned __attribute__((aligned(1), may_alias));
  static constexpr int LANES = 8, BYTES = 8;
  static __m512i spread(const std::uint8_t* in) {
    return _mm512_set1_epi64(*reinterpret_cast<const Unaligned*>(in));
  }
  static __m512i spread_mask(std::uint64_t mask) { return _mm512_set1_epi64(static_cast<long long>(mask)); }
  static __m512i count(__m512i hits) { return _mm512_popcnt_epi64(hits); }
  static __m512i count(__m512i hits, __mmask16 lanes) {
    return _mm512_maskz_popcnt_epi64(static_cast<__mmask8>(lanes), hits);
  }
  static void add(__m512i& sum, __m512i count) { __asm__("vpaddq %1, %0, %0" : "+v"(sum) : "v"(count)); }
  template <int First>
  static __m512i channels(const __m512i (&pop)[VECTORS]) {
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    return _mm512_permutex2var_epi32(pop[0], even, pop[1]);
  }
};

// The lanes of a vector, from channel `start` on, that are the piece's.
template <typename Words>
__mmask16 lanes_of(const WordPiece& piece, int start) {
  constexpr std::uint64_t all = (1U << Words::LANES) - 1;
  const int from = piece.first > start ? piece.first - start : 0, to = piece.last - start;
  return static_cast<__mmask16>((all << from & all) & (to >= Words::LANES ? all : (std::uint64_t{1} << to) - 1));
}

// Counts of some words of a piece in vectors [First, First + Count) of those that are summed at a time.
template <typename Words, bool ZeroOne, bool Masked, bool Whole, int Step, int Positions, int First, int Count>
__attribute__((always_inline)) inline void count_words(const WordPiece& piece, const std::uint8_t* window, int start,
                                                       const std::uint32_t* offsets, int words, const std::uint8_t* w,
                                                       __m512i (&pop)[Positions][VECTORS]) {
  const std::size_t step = Step != 0 ? Step : piece.step;
  const __m512i mask = Words::spread_mask(piece.mask);
  __mmask16 lanes[Count];
  for (int v = 0; v < Count; ++v) lanes[v] = lanes_of<Words>(piece, start + (First + v) * Words::LANES);
  for (int k = 0; k < words; ++k, w += PANEL * Words::BYTES) {
    const std::uint8_t* in = window + offsets[k];
    __m512i weights[Count];
    for (int v = 0; v < Count; ++v) weights[v] = _mm512_load_si512(w + 64 * v);
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) {
      const __m512i code = Words::spread(in + p * step);
      for (int v = 0; v < Count; ++v) {
        __m512i hits;
        if (ZeroOne) {
          hits = _mm512_and_si512(code, weights[v]);
        } else if (Masked) {
          hits = _mm512_ternarylogic_epi64(code, weights[v], mask, 0x28);  // (a ^ b) & c
        } else {
          hits = _mm512_xor_si512(code, weights[v]);
        }
        Words::add(pop[p][First + v], Whole ? Words::count(hits) : Words::count(hits, lanes[v]));
      }
    }
  }
}

// Counts of a piece, of channels from `start` on.
template <typename Words, bool ZeroOne, bool Whole, int Step, int Positions, int First, int Count>
__attribute__((always_inline)) inline void count_piece(const WordPiece& piece, int x, int start,
                                                       __m512i (&pop)[Positions][VECTORS]) {
  const auto* w = static_cast<const std::uint8_t*>(piece.weights) + start * Words::BYTES + First * 64;
  const std::uint8_t* window = piece.in + x * (Step != 0 ? Step : piece.step);
  count_words<Words, ZeroOne, false, Whole, Step, Positions, First, Count>(piece, window, start, piece.offsets,
                                                                          piece.whole, w, pop);
  if (ZeroOne || piece.cut == 0) return;
  count_words<Words, ZeroOne, true, Whole, Step, Positions, First, Count>(
      piece, window, start, piece.offsets + piece.whole, piece.cut, w + piece.whole * PANEL * Words::BYTES, pop);
}

// The 16 channels from `channel` on, whose counts are in vectors from First on, to sums and results.
template <typename Words, bool ZeroOne, int First, int Positions>
__attribute__((always_inline)) inline void finish_counts(const BConvRow& row, int x, int channel, const __m512i (&pop)[Positions][VECTORS]) {
  const __m512 two = _mm512_set1_ps(2);
  __m512 acc[Positions];
#pragma GCC unroll 16
  for (int p = 0; p < Positions; ++p) {
    // Unmasked, GCC 12 warns of an uninitialised value in its own header.
    acc[p] = _mm512_maskz_cvtepi32_ps(0xffff, Words::template channels<First>(pop[p]));
  }
  if (ZeroOne) {
    __m512 ones[Positions];
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) ones[p] = _mm512_setzero_ps();
    for (const WordPiece* piece = row.pieces; piece != row.pieces + row.count; ++piece) {
      if (piece->first >= channel + LANES || piece->last <= channel) continue;
      const __mmask16 lanes = lanes_of<Words32>(*piece, channel);
#pragma GCC unroll 16
      for (int p = 0; p < Positions; ++p) {
        ones[p] = _mm512_mask_mov_ps(ones[p], lanes, _mm512_set1_ps(static_cast<float>(piece->ones[x + p])));
      }
    }
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) acc[p] = _mm512_fmsub_ps(two, acc[p], ones[p]);
  } else if (row.border[x] == row.border[x + Positions - 1]) {  // and so all between
    const __m512 base = _mm512_loadu_ps(row.base + row.border[x] * PANEL + channel);
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) acc[p] = _mm512_fnmadd_ps(two, acc[p], base);
  } else {
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) {
      acc[p] = _mm512_fnmadd_ps(two, acc[p], _mm512_loadu_ps(row.base + row.border[x + p] * PANEL + channel));
    }
  }
  finish(row.end, row.channels, channel, static_cast<std::size_t>(x), acc);
}

// VECTORS vectors of channels from `start` on, at some positions. Step, where not 0, is that of the row as a constant;
// Single: the row is one group's.
template <typename Words, bool ZeroOne, bool Single, int Step, int Positions>
__attribute__((noinline)) void bconv_unit(const BConvRow& row, int x, int start) {
  constexpr int UNIT = VECTORS * Words::LANES, MIDDLE = Words::LANES;
  __m512i pop[Positions][VECTORS];
#pragma GCC unroll 16
  for (int p = 0; p < Positions; ++p) {
    for (int v = 0; v < VECTORS; ++v) pop[p][v] = _mm512_setzero_si512();
  }
  if (Single) {
    count_piece<Words, ZeroOne, true, Step, Positions, 0, 2>(*row.pieces, x, start, pop);
  } else {
    for (const WordPiece* piece = row.pieces; piece != row.pieces + row.count; ++piece) {
      const int first = piece->first - start, last = piece->last - start;
      if (first >= UNIT || last <= 0) continue;
      if (last <= MIDDLE) {
        count_piece<Words, ZeroOne, false, 0, Positions, 0, 1>(*piece, x, start, pop);
      } else if (first >= MIDDLE) {
        count_piece<Words, ZeroOne, false, 0, Positions, 1, 1>(*piece, x, start, pop);
      } else {
        count_piece<Words, ZeroOne, false, 0, Positions, 0, 2>(*piece, x, start, pop);
      }
    }
  }
  finish_counts<Words, ZeroOne, 0>(row, x, start, pop);
  if (Words::LANES == LANES && start + LANES < row.channels) {
    finish_counts<Words, ZeroOne, VECTORS - 1>(row, x, start + LANES, pop);
  }
}

template <typename Words, bool ZeroOne, int Step, int Positions>
void bconv_tile(const BConvRow& row, int x) {
  constexpr int UNIT = VECTORS * Words::LANES;
  for (int start = 0; start < row.channels; start += UNIT) {
    const bool is_single = row.count == 1 && start + Words::LANES < row.channels;  // and fills both vectors
    is_single ? bconv_unit<Words, ZeroOne, true, Step, Positions>(row, x, start)
              : bconv_unit<Words, ZeroOne, false, 0, Positions>(row, x, start);
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

// Only full tiles are worth a constant step: it saves address arithmetic, 4 % of a layer with 64 channels.
template <typename Words, bool ZeroOne, int Step>
void bconv_row(const BConvRow& row) {
  static constexpr void (*tiles[BIT_TILE])(const BConvRow&, int) = {
      bconv_tile<Words, ZeroOne, 0, 1>, bconv_tile<Words, ZeroOne, 0, 2>, bconv_tile<Words, ZeroOne, 0, 3>,
      bconv_tile<Words, ZeroOne, 0, 4>, bconv_tile<Words, ZeroOne, 0, 5>, bconv_tile<Words, ZeroOne, 0, 6>,
      bconv_tile<Words, ZeroOne, Step, 7>,
  };
  cut(row, tiles);
}

template <typename Words, bool ZeroOne>
void bconv_row(const BConvRow& row) {
  switch (row.count == 1 ? row.pieces->step : 0) {
    case 8:
      return bconv_row<Words, ZeroOne, 8>(row);
    case 16:
      return bconv_row<Words, ZeroOne, 16>(row);
    case 32:
      return bconv_row<Words, ZeroOne, 32>(row);
    case 64:
      return bconv_row<Words, ZeroOne, 64>(row);
    default:
      return bconv_row<Words, ZeroOne, 0>(row);
  }
}

template <typename Words>
void bconv_row(const BConvRow& row) {
  row.zero_one ? bconv_row<Words, true>(row) : bconv_row<Words, false>(row);
}

void row(const BConvRow& row) { row.word == 4 ? bconv_row<Words32>(row) : bconv_row<Words64>(row); }

void ones(const std::uint64_t* codes, std::size_t words, int positions, std::int32_t* ones) {
  for (int x = 0; x < positions; ++x) {
    long long sum = 0;
    for (std::size_t k = 0; k < words; ++k) sum += __builtin_popcountll(*codes++);
    ones[x] = static_cast<std::int32_t>(sum);
  }
}

}  // namespace

extern const WordKernels words__avx512;
const WordKernels words__avx512 = {row, ones, true, 8};

}  // namespace ftbnn
