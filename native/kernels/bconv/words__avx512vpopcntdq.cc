// A lane is an output channel, a tile some positions of the row, so sums never cross lanes and the epilogue starts
// from registers. Words are of 32 bits, so that a vector is 16 channels, as the epilogue's are.
#include "kernels/bconv/words.h"
#include "kernels/epilogue/epilogue__avx512.h"

namespace ftbnn {

namespace {

// Rows are 7, 14, 28, 56 or 112 wide in most networks, so the largest tiles leave no tail there. A panel is two
// vectors: with 7 positions registers are left, so that loads run ahead.
constexpr int BIT_TILE = 7;
constexpr std::size_t WORD = 4;

typedef int Unaligned __attribute__((aligned(1), may_alias));

// The first words of the windows of a vector's channels: of one group, or of two, where the second's lanes are `upper`.
struct Windows {
  const std::uint8_t *low, *high;
  __mmask16 upper;
  const std::int32_t *low_ones, *high_ones;
};

template <bool Blends>
inline __m512i codes_at(const Windows& windows, std::size_t at) {
  const __m512i low = _mm512_set1_epi32(*reinterpret_cast<const Unaligned*>(windows.low + at));
  if (!Blends) return low;
  return _mm512_mask_set1_epi32(low, windows.upper, *reinterpret_cast<const Unaligned*>(windows.high + at));
}

// Added in assembly, or GCC 12 moves sums from register to register, a tenth of the time.
inline void add(__m512i& sum, __m512i count) { __asm__("vpaddd %1, %0, %0" : "+v"(sum) : "v"(count)); }

enum Form { XOR, AND, MASKED_XOR };

template <Form form>
inline __m512i count(__m512i codes, __m512i weights, __m512i mask) {
  if (form == AND) return _mm512_popcnt_epi32(_mm512_and_si512(codes, weights));
  if (form == XOR) return _mm512_popcnt_epi32(_mm512_xor_si512(codes, weights));
  return _mm512_popcnt_epi32(_mm512_ternarylogic_epi64(codes, weights, mask, 0x28));  // (a ^ b) & c
}

// The vectors of a panel, and how they read codes: all the same group's, or some of them those of two groups.
template <int Vectors>
struct OneGroup {
  static constexpr int VECTORS = Vectors;
  static constexpr bool SAME = true, FIRST = false, SECOND = false;
};
template <int Vectors, bool First, bool Second>
struct SomeGroups {
  static constexpr int VECTORS = Vectors;
  static constexpr bool SAME = false, FIRST = First, SECOND = Second;
};

// Counts of `words` words of windows. Step, where not 0, is that of the row as a constant.
template <typename Kind, Form form, int Step, int Positions>
__attribute__((always_inline)) inline void count_words(const Windows (&windows)[2], std::size_t step,
                                                       const std::uint32_t* offsets, int words, const std::uint8_t* w,
                                                       std::uint64_t bits, __m512i (&pop)[Positions][Kind::VECTORS]) {
  if (Step != 0) step = Step;
  const __m512i mask = _mm512_set1_epi32(static_cast<int>(bits));
  for (int k = 0; k < words; ++k, w += PANEL * WORD) {
    const __m512i first = _mm512_load_si512(w), second = _mm512_load_si512(w + 64);
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) {
      const std::size_t at = offsets[k] + p * step;
      const __m512i codes = codes_at<Kind::FIRST>(windows[0], at);
      add(pop[p][0], count<form>(codes, first, mask));
      if constexpr (Kind::VECTORS == 2) {
        add(pop[p][1], count<form>(Kind::SAME ? codes : codes_at<Kind::SECOND>(windows[1], at), second, mask));
      }
    }
  }
}

// Counts of a tile to sums, then the epilogue, of half a panel. ones(p): of the window of position x + p.
template <bool ZeroOne, int Half, int Positions, int Vectors, typename Ones>
__attribute__((always_inline)) inline void finish_counts(const BConvRow& row, int x,
                                                         const __m512i (&pop)[Positions][Vectors], const Ones& ones) {
  constexpr int channel = Half * LANES;
  const __m512 two = _mm512_set1_ps(2);
  __m512 acc[Positions];
#pragma GCC unroll 16
  for (int p = 0; p < Positions; ++p) {
    // Unmasked, GCC 12 warns of an uninitialised value in its own header.
    acc[p] = _mm512_maskz_cvtepi32_ps(0xffff, pop[p][Half]);
  }
  if (ZeroOne) {
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) {
      acc[p] = _mm512_fmsub_ps(two, acc[p], _mm512_maskz_cvtepi32_ps(0xffff, ones(p)));
    }
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

template <bool Blends>
inline __m512i ones_at(const Windows& windows, int x) {
  const __m512i low = _mm512_set1_epi32(windows.low_ones[x]);
  return Blends ? _mm512_mask_set1_epi32(low, windows.upper, windows.high_ones[x]) : low;
}

template <int Positions, int Vectors>
__attribute__((always_inline)) inline void clear(__m512i (&pop)[Positions][Vectors]) {
#pragma GCC unroll 16
  for (int p = 0; p < Positions; ++p) {
    for (int v = 0; v < Vectors; ++v) pop[p][v] = _mm512_setzero_si512();
  }
}

// All groups of the panel are alike, and no vector has channels of more than two.
template <typename Kind, bool ZeroOne, int Step, int Positions>
__attribute__((noinline)) void bconv_tile(const BConvRow& row, int x, const Windows (&rows)[2]) {
  const WordPiece& piece = *row.pieces;
  const std::size_t step = piece.step, at = static_cast<std::size_t>(x) * step;
  const Windows windows[2] = {{rows[0].low + at, rows[0].high + at, rows[0].upper, nullptr, nullptr},
                              {rows[1].low + at, rows[1].high + at, rows[1].upper, nullptr, nullptr}};
  const auto* w = static_cast<const std::uint8_t*>(piece.weights);
  __m512i pop[Positions][Kind::VECTORS];
  clear(pop);
  count_words<Kind, ZeroOne ? AND : XOR, Step>(windows, step, piece.offsets, piece.whole, w, 0, pop);
  if (!ZeroOne && piece.cut > 0) {
    count_words<Kind, MASKED_XOR, Step>(windows, step, piece.offsets + piece.whole, piece.cut,
                                        w + static_cast<std::size_t>(piece.whole) * PANEL * WORD, piece.mask, pop);
  }
  finish_counts<ZeroOne, 0>(row, x, pop, [&](int p) { return ones_at<Kind::FIRST>(rows[0], x + p); });
  if constexpr (Kind::VECTORS == 2) {
    finish_counts<ZeroOne, 1>(row, x, pop, [&](int p) { return ones_at<Kind::SECOND>(rows[1], x + p); });
  }
}

// Any groups: one position at a time, all its channels counted for each piece.
template <bool ZeroOne>
void bconv_pieces(const BConvRow& row) {
  for (int x = 0; x < row.width; ++x) {
    __m512i sums[1][2], ones[2] = {};
    clear(sums);
    for (const WordPiece* piece = row.pieces; piece != row.pieces + row.count; ++piece) {
      const std::uint8_t* window = piece->in + static_cast<std::size_t>(x) * piece->step;
      const Windows windows[2] = {{window, window, 0, nullptr, nullptr}, {window, window, 0, nullptr, nullptr}};
      const auto* w = static_cast<const std::uint8_t*>(piece->weights);
      __m512i pop[1][2];
      clear(pop);
      count_words<OneGroup<2>, ZeroOne ? AND : XOR, 0>(windows, 0, piece->offsets, piece->whole, w, 0, pop);
      count_words<OneGroup<2>, ZeroOne ? AND : MASKED_XOR, 0>(
          windows, 0, piece->offsets + piece->whole, piece->cut,
          w + static_cast<std::size_t>(piece->whole) * PANEL * WORD, piece->mask, pop);
      const auto from = static_cast<std::uint32_t>(~std::uint64_t{0} << piece->first);  // a later piece takes its part
      for (int half = 0; half < 2; ++half) {
        const auto lanes = static_cast<__mmask16>(from >> half * LANES);
        sums[0][half] = _mm512_mask_mov_epi32(sums[0][half], lanes, pop[0][half]);
        if (ZeroOne) ones[half] = _mm512_mask_set1_epi32(ones[half], lanes, piece->ones[x]);
      }
    }
    finish_counts<ZeroOne, 0>(row, x, sums, [&](int) { return ones[0]; });
    if (row.channels > LANES) finish_counts<ZeroOne, 1>(row, x, sums, [&](int) { return ones[1]; });
  }
}

using Tile = void (*)(const BConvRow&, int, const Windows (&)[2]);

// Cuts the row into as few tiles as it takes, of nearly equal sizes. Only full tiles are worth a constant step: it saves
// address arithmetic, 4 % of a layer with 64 channels.
template <typename Kind, bool ZeroOne, int Step>
void cut(const BConvRow& row, const Windows (&windows)[2]) {
  static constexpr Tile tiles[BIT_TILE] = {
      bconv_tile<Kind, ZeroOne, 0, 1>, bconv_tile<Kind, ZeroOne, 0, 2>, bconv_tile<Kind, ZeroOne, 0, 3>,
      bconv_tile<Kind, ZeroOne, 0, 4>, bconv_tile<Kind, ZeroOne, 0, 5>, bconv_tile<Kind, ZeroOne, 0, 6>,
      bconv_tile<Kind, ZeroOne, Step, 7>};
  const int count = (row.width + BIT_TILE - 1) / BIT_TILE;
  for (int tile = 0, x = 0; tile < count; ++tile) {
    const int positions = (row.width - x) / (count - tile);
    tiles[positions - 1](row, x, windows);
    x += positions;
  }
}

template <bool ZeroOne>
void bconv_one_group(const BConvRow& row) {
  const WordPiece& piece = *row.pieces;
  const Windows all{piece.in, piece.in, 0, piece.ones, piece.ones}, windows[2] = {all, all};
  if (row.channels <= LANES) return cut<OneGroup<1>, ZeroOne, 0>(row, windows);
  switch (piece.step) {
    case 8:
      return cut<OneGroup<2>, ZeroOne, 8>(row, windows);
    case 16:
      return cut<OneGroup<2>, ZeroOne, 16>(row, windows);
    case 32:
      return cut<OneGroup<2>, ZeroOne, 32>(row, windows);
    case 64:
      return cut<OneGroup<2>, ZeroOne, 64>(row, windows);
    default:
      return cut<OneGroup<2>, ZeroOne, 0>(row, windows);
  }
}

// The groups of channels start to start + 15; false if there are more than two.
bool find_windows(const BConvRow& row, int start, Windows& windows) {
  const WordPiece *first = row.pieces, *end = row.pieces + row.count;
  while (first + 1 != end && first->last <= start) ++first;
  windows = {first->in, first->in, 0, first->ones, first->ones};
  const WordPiece* second = first + 1;
  if (second == end || second->first >= start + LANES) return true;
  windows.high = second->in;
  windows.high_ones = second->ones;
  windows.upper = static_cast<__mmask16>(0xffffU << (second->first - start));
  return second + 1 == end || second->last >= start + LANES;
}

template <bool ZeroOne>
void bconv_row(const BConvRow& row) {
  if (row.count == 1) return bconv_one_group<ZeroOne>(row);
  bool is_alike = true;
  for (int k = 1; k < row.count; ++k) is_alike = is_alike && row.pieces[k].weights == row.pieces->weights;
  Windows windows[2];
  if (!is_alike || !find_windows(row, 0, windows[0]) || !find_windows(row, LANES, windows[1])) {
    return bconv_pieces<ZeroOne>(row);
  }
  const bool first = windows[0].upper != 0, second = windows[1].upper != 0;
  if (row.channels <= LANES) return cut<SomeGroups<1, true, false>, ZeroOne, 0>(row, windows);
  if (first && second) return cut<SomeGroups<2, true, true>, ZeroOne, 0>(row, windows);
  if (first) return cut<SomeGroups<2, true, false>, ZeroOne, 0>(row, windows);
  if (second) return cut<SomeGroups<2, false, true>, ZeroOne, 0>(row, windows);
  cut<SomeGroups<2, false, false>, ZeroOne, 0>(row, windows);
}

void row(const BConvRow& row) { row.zero_one ? bconv_row<true>(row) : bconv_row<false>(row); }

void ones(const std::uint64_t* codes, std::size_t words, int positions, std::int32_t* ones) {
  for (int x = 0; x < positions; ++x) {
    long long sum = 0;
    for (std::size_t k = 0; k < words; ++k) sum += __builtin_popcountll(*codes++);
    ones[x] = static_cast<std::int32_t>(sum);
  }
}

}  // namespace

extern const WordKernels words__avx512;
const WordKernels words__avx512 = {WORD, row, ones};

}  // namespace ftbnn
