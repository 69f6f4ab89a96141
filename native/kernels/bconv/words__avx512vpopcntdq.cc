// A lane is an output channel, a tile some positions of the row, so sums never cross lanes and the epilogue starts
// from registers. Words are of 32 bits, so that a vector is 16 channels, as the epilogue's are.
#include "kernels/bconv/words.h"
#include "kernels/epilogue/epilogue__avx512.h"

namespace ftbnn {

namespace {

// Rows are 7, 14, 28, 56 or 112 wide in most networks: tiles of 14 positions x 2 vectors fill the registers, those of
// up to 7 serve other widths.
constexpr int BIT_TILE = 7, LONG_TILE = 14;
constexpr std::size_t WORD = 4;

typedef int Unaligned __attribute__((aligned(1), may_alias));

// The first words of the windows of a vector's channels: of one group, or of two, where the second's lanes are `upper`.
struct Windows {
  const std::uint8_t *low, *high;
  __mmask16 upper;
};

// An output row of a panel.
struct Row {
  Windows windows[2];
  std::size_t step;  // bytes from one output to the next
  const std::uint32_t* offsets;
  int whole, cut;
  std::uint64_t mask;
  const std::uint8_t* weights;
  int channels;
  float worth;
  const float* base;
  const std::uint8_t* border;
  Epilogue end;
};

template <bool Blends>
inline __m512i codes_at(const Windows& windows, std::size_t at) {
  const __m512i low = _mm512_set1_epi32(*reinterpret_cast<const Unaligned*>(windows.low + at));
  if (!Blends) return low;
  return _mm512_mask_set1_epi32(low, windows.upper, *reinterpret_cast<const Unaligned*>(windows.high + at));
}

// Added in assembly, or GCC 12 moves sums from register to register, a tenth of the time.
inline void add(__m512i& sum, __m512i count) { __asm__("vpaddd %1, %0, %0" : "+v"(sum) : "v"(count)); }

template <bool Masked>
inline __m512i count(__m512i codes, __m512i weights, __m512i mask) {
  if (!Masked) return _mm512_popcnt_epi32(_mm512_xor_si512(codes, weights));
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

// Counts of `words` words of the windows from `at` bytes on. Step, where not 0, is that of the row as a constant.
template <typename Kind, bool Masked, int Step, int Positions>
__attribute__((always_inline)) inline void count_words(const Row& row, std::size_t at, int start, int words,
                                                       __m512i (&pop)[Positions][Kind::VECTORS]) {
  const std::size_t step = Step != 0 ? Step : row.step;
  const __m512i mask = _mm512_set1_epi32(static_cast<int>(row.mask));
  const std::uint8_t* w = row.weights + static_cast<std::size_t>(start) * PANEL * WORD;
  const std::uint32_t* offsets = row.offsets + start;
  const Windows windows[2] = {row.windows[0], row.windows[1]};
  for (int k = 0; k < words; ++k, w += PANEL * WORD) {
    const __m512i first = _mm512_load_si512(w), second = _mm512_load_si512(w + 64);
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) {
      const std::size_t word = at + offsets[k] + p * step;
      const __m512i codes = codes_at<Kind::FIRST>(windows[0], word);
      add(pop[p][0], count<Masked>(codes, first, mask));
      if constexpr (Kind::VECTORS == 2) {
        add(pop[p][1], count<Masked>(Kind::SAME ? codes : codes_at<Kind::SECOND>(windows[1], word), second, mask));
      }
    }
  }
}

// Counts of a tile to sums, then the epilogue, of half a panel.
template <int Half, int Positions, int Vectors>
__attribute__((always_inline)) inline void finish_counts(const Row& row, int x,
                                                         const __m512i (&pop)[Positions][Vectors]) {
  constexpr int channel = Half * LANES;
  const __m512 worth = _mm512_set1_ps(row.worth);
  const std::uint8_t* border = row.border + x;
  __m512 acc[Positions];
#pragma GCC unroll 16
  for (int p = 0; p < Positions; ++p) {
    // Unmasked, GCC 12 warns of an uninitialised value in its own header.
    acc[p] = _mm512_maskz_cvtepi32_ps(0xffff, pop[p][Half]);
  }
  if (border[0] == border[Positions - 1]) {  // and so all between
    const __m512 base = _mm512_loadu_ps(row.base + border[0] * PANEL + channel);
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) acc[p] = _mm512_fnmadd_ps(worth, acc[p], base);
  } else {
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) {
      acc[p] = _mm512_fnmadd_ps(worth, acc[p], _mm512_loadu_ps(row.base + border[p] * PANEL + channel));
    }
  }
  finish(row.end, row.channels, channel, static_cast<std::size_t>(x), acc);
}

template <int Positions, int Vectors>
__attribute__((always_inline)) inline void clear(__m512i (&pop)[Positions][Vectors]) {
#pragma GCC unroll 16
  for (int p = 0; p < Positions; ++p) {
    for (int v = 0; v < Vectors; ++v) pop[p][v] = _mm512_setzero_si512();
  }
}

// All groups of the panel are alike, and no vector has channels of more than two.
template <typename Kind, int Step, int Positions>
__attribute__((noinline)) void bconv_tile(const Row& row, int x) {
  const std::size_t at = static_cast<std::size_t>(x) * row.step;
  __m512i pop[Positions][Kind::VECTORS];
  clear(pop);
  count_words<Kind, false, Step>(row, at, 0, row.whole, pop);
  if (row.cut > 0) count_words<Kind, true, Step>(row, at, row.whole, row.cut, pop);
  finish_counts<0>(row, x, pop);
  if constexpr (Kind::VECTORS == 2) finish_counts<1>(row, x, pop);
}

// So many rows down, or up.
inline void move_rows(Row& row, const BConvRows& rows, std::ptrdiff_t count) {
  const std::ptrdiff_t bytes = count * static_cast<std::ptrdiff_t>(rows.pieces->row_step);
  for (Windows& windows : row.windows) {
    windows.low += bytes;
    windows.high += bytes;
  }
  move_rows(row.end, count);
}

// From the first and the last row towards the middle: a CPU that foresees the next row of each load would else fetch
// rows behind the last one, which are another thread's, away from that. A row in as few tiles as it takes, of nearly
// equal sizes. Only full tiles are worth a constant step: it saves address arithmetic, 4 % of a layer with 64 channels.
template <typename Kind, int Step>
void bconv_rows(const BConvRows& rows, Row row) {
  static constexpr void (*tiles[BIT_TILE])(const Row&, int) = {
      bconv_tile<Kind, 0, 1>, bconv_tile<Kind, 0, 2>, bconv_tile<Kind, 0, 3>,   bconv_tile<Kind, 0, 4>,
      bconv_tile<Kind, 0, 5>, bconv_tile<Kind, 0, 6>, bconv_tile<Kind, Step, 7>};
  const bool is_long = rows.width % LONG_TILE == 0;
  const int count = (rows.width + BIT_TILE - 1) / BIT_TILE, larger = rows.width % count;
  for (int k = 0, y = 0; k < rows.rows; ++k) {
    const int next = k % 2 == 0 ? k / 2 : rows.rows - 1 - k / 2;
    move_rows(row, rows, next - y);
    y = next;
    row.base = rows.base + rows.row_border[y] * rows.row_base;
    for (int x = 0; is_long && x < rows.width; x += LONG_TILE) bconv_tile<Kind, Step, LONG_TILE>(row, x);
    for (int tile = 0, x = 0; !is_long && tile < count; ++tile) {
      const int positions = rows.width / count + (tile < larger ? 1 : 0);
      tiles[positions - 1](row, x);
      x += positions;
    }
  }
}

Row first_row(const BConvRows& rows, const WordPiece& piece) {
  Row row{};
  row.windows[0] = row.windows[1] = {piece.in, piece.in, 0};
  row.step = piece.step;
  row.offsets = piece.offsets;
  row.whole = piece.whole;
  row.cut = piece.cut;
  row.mask = piece.mask;
  row.weights = static_cast<const std::uint8_t*>(piece.weights);
  row.channels = rows.channels;
  row.worth = rows.worth;
  row.border = rows.column_border;
  row.end = rows.end;
  return row;
}

// Any groups: one position at a time, all its channels counted for each piece.
void bconv_pieces(const BConvRows& rows) {
  Row row = first_row(rows, *rows.pieces);
  for (int y = 0; y < rows.rows; ++y, next_row(row.end)) {
    row.base = rows.base + rows.row_border[y] * rows.row_base;
    for (int x = 0; x < rows.width; ++x) {
      __m512i sums[1][2];
      clear(sums);
      for (const WordPiece* piece = rows.pieces; piece != rows.pieces + rows.count; ++piece) {
        const Row own = first_row(rows, *piece);
        const std::size_t at = static_cast<std::size_t>(y) * piece->row_step + static_cast<std::size_t>(x) * own.step;
        __m512i pop[1][2];
        clear(pop);
        count_words<OneGroup<2>, false, 0>(own, at, 0, own.whole, pop);
        count_words<OneGroup<2>, true, 0>(own, at, own.whole, own.cut, pop);
        const auto from =
            static_cast<std::uint32_t>(~std::uint64_t{0} << piece->first);  // a later piece takes its part
        for (int half = 0; half < 2; ++half) {
          const auto lanes = static_cast<__mmask16>(from >> half * LANES);
          sums[0][half] = _mm512_mask_mov_epi32(sums[0][half], lanes, pop[0][half]);
        }
      }
      finish_counts<0>(row, x, sums);
      if (rows.channels > LANES) finish_counts<1>(row, x, sums);
    }
  }
}

void bconv_one_group(const BConvRows& rows) {
  const Row row = first_row(rows, *rows.pieces);
  if (rows.channels <= LANES) return bconv_rows<OneGroup<1>, 0>(rows, row);
  switch (row.step) {
    case 8:
      return bconv_rows<OneGroup<2>, 8>(rows, row);
    case 16:
      return bconv_rows<OneGroup<2>, 16>(rows, row);
    case 32:
      return bconv_rows<OneGroup<2>, 32>(rows, row);
    case 64:
      return bconv_rows<OneGroup<2>, 64>(rows, row);
    default:
      return bconv_rows<OneGroup<2>, 0>(rows, row);
  }
}

// The groups of channels start to start + 15; false if there are more than two.
bool find_windows(const BConvRows& rows, int start, Windows& windows) {
  const WordPiece *first = rows.pieces, *end = rows.pieces + rows.count;
  while (first + 1 != end && first->last <= start) ++first;
  windows = {first->in, first->in, 0};
  const WordPiece* second = first + 1;
  if (second == end || second->first >= start + LANES) return true;
  windows.high = second->in;
  windows.upper = static_cast<__mmask16>(0xffffU << (second->first - start));
  return second + 1 == end || second->last >= start + LANES;
}

void rows(const BConvRows* panel, int) {
  const BConvRows& rows = *panel;
  if (rows.count == 1) return bconv_one_group(rows);
  bool is_alike = true;
  for (int k = 1; k < rows.count; ++k) is_alike = is_alike && rows.pieces[k].weights == rows.pieces->weights;
  Row row = first_row(rows, *rows.pieces);
  if (!is_alike || !find_windows(rows, 0, row.windows[0]) || !find_windows(rows, LANES, row.windows[1])) {
    return bconv_pieces(rows);
  }
  const bool first = row.windows[0].upper != 0, second = row.windows[1].upper != 0;
  if (rows.channels <= LANES) return bconv_rows<SomeGroups<1, true, false>, 0>(rows, row);
  if (first && second) return bconv_rows<SomeGroups<2, true, true>, 0>(rows, row);
  if (first) return bconv_rows<SomeGroups<2, true, false>, 0>(rows, row);
  if (second) return bconv_rows<SomeGroups<2, false, true>, 0>(rows, row);
  bconv_rows<SomeGroups<2, false, false>, 0>(rows, row);
}

bool always(const BConvShape&) { return true; }

}  // namespace

extern const WordKernels words__avx512;
const WordKernels words__avx512 = {WORD, 1, always, always, rows, nullptr};

}  // namespace ftbnn
