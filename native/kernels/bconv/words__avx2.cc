// Nibbles in lanes of output channels: a code's nibble chooses a table of sixteen counts, the weights of 32 channels
// are its indices. One look-up of a table serves two panels; sums need no transposition.
#include "kernels/bconv/bconv.h"
#include "kernels/bconv/planes__nibbles.h"
#include "kernels/bconv/words.h"
#include "kernels/epilogue/epilogue__avx2.h"

namespace ftbnn {

namespace {

constexpr int BYTE_TILE = 6;  // positions x 2 panels of sums, 2 of weights, a table of 16 registers
constexpr int WIDE = 24;      // positions of a row that fill tiles by themselves

using Sums = std::uint16_t[MOST_PANELS][PANEL];  // of a position

// A function of its own, and sums that pass through an empty instruction: or GCC spills them.
template <int Positions, int Panels>
__attribute__((noinline)) void count_tile(const WordPiece& piece, const std::uint8_t* second,
                                          const std::uint8_t* const* windows, const std::uint8_t* table, Sums* sums) {
  const std::uint8_t* first = static_cast<const std::uint8_t*>(piece.weights);
  const std::uint8_t* codes[Positions];
  for (int p = 0; p < Positions; ++p) codes[p] = windows[p];
  const std::ptrdiff_t between = Panels == 2 ? second - first : 0;
  const std::uint32_t* offsets = piece.offsets;
  for (int start = 0; start < piece.whole; start += SEGMENT) {
    const int end = start + SEGMENT < piece.whole ? start + SEGMENT : piece.whole;
    __m256i acc[Positions][Panels];
#pragma GCC unroll 6
    for (int p = 0; p < Positions; ++p) {
      for (int n = 0; n < Panels; ++n) acc[p][n] = _mm256_setzero_si256();
    }
    for (int k = start; k < end; ++k) {
      const std::size_t at = offsets[k];
      __m256i w[Panels];
      w[0] = _mm256_load_si256(reinterpret_cast<const __m256i*>(first));
      if (Panels == 2) w[Panels - 1] = _mm256_load_si256(reinterpret_cast<const __m256i*>(first + between));
      first += PANEL;
#pragma GCC unroll 6
      for (int p = 0; p < Positions; ++p) {
        const __m256i counts =
            _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table + codes[p][at])));
        for (int n = 0; n < Panels; ++n) {
          acc[p][n] = _mm256_add_epi8(acc[p][n], _mm256_shuffle_epi8(counts, w[n]));
          __asm__("" : "+x"(acc[p][n]));
        }
      }
    }
#pragma GCC unroll 6
    for (int p = 0; p < Positions; ++p) {
      for (int n = 0; n < Panels; ++n) widen(acc[p][n], start > 0, sums[p][n]);
    }
  }
}

// Where a position is among the rows of one panel or two.
struct Place {
  int y, x;
  Epilogue end[MOST_PANELS];  // of row y
};

// Counts of neighbours in a row to sums, then the epilogue, of one panel.
template <int Positions>
void finish_some(const BConvRows& rows, const Place& place, int panel, const Sums* sums) {
  const __m256 worth = _mm256_set1_ps(rows.worth);
  const std::uint8_t* border = rows.column_border + place.x;
  const float* bases = rows.base + rows.row_border[place.y] * rows.row_base;
  for (int first = 0; first < rows.channels; first += LANES) {
    __m256 y[Positions];
#pragma GCC unroll 6
    for (int p = 0; p < Positions; ++p) {
      const auto* from = reinterpret_cast<const __m128i*>(sums[p][panel] + first);
      y[p] = _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(_mm_load_si128(from)));
    }
    if (border[0] == border[Positions - 1]) {  // and so all between
      const __m256 base = _mm256_loadu_ps(bases + border[0] * PANEL + first);
#pragma GCC unroll 6
      for (int p = 0; p < Positions; ++p) y[p] = _mm256_fnmadd_ps(worth, y[p], base);
    } else {
#pragma GCC unroll 6
      for (int p = 0; p < Positions; ++p) {
        y[p] = _mm256_fnmadd_ps(worth, y[p], _mm256_loadu_ps(bases + border[p] * PANEL + first));
      }
    }
    finish(place.end[panel], rows.channels, first, static_cast<std::size_t>(place.x), y);
  }
}

void finish_tile(const BConvRows* panels, int count, Place& place, int positions, const Sums* sums) {
  static constexpr void (*some[BYTE_TILE])(const BConvRows&, const Place&, int, const Sums*) = {
      finish_some<1>, finish_some<2>, finish_some<3>, finish_some<4>, finish_some<5>, finish_some<6>};
  for (int done = 0, n; done < positions; done += n) {
    n = positions - done < panels->width - place.x ? positions - done : panels->width - place.x;
    for (int k = 0; k < count; ++k) some[n - 1](panels[k], place, k, sums + done);
    place.x += n;
    if (place.x < panels->width) continue;
    place.x = 0;
    ++place.y;
    for (int k = 0; k < count; ++k) next_row(place.end[k]);
  }
}

// Any groups: one position at a time, all its channels counted for each piece.
void bconv_pieces(const BConvRows& rows) {
  Place place{0, 0, {rows.end}};
  for (; place.y < rows.rows; ++place.y, next_row(place.end[0])) {
    for (place.x = 0; place.x < rows.width; ++place.x) {
      alignas(32) Sums all[1], sums[1];
      for (const WordPiece* piece = rows.pieces; piece != rows.pieces + rows.count; ++piece) {
        const std::uint8_t* window = piece->in + static_cast<std::size_t>(place.y) * piece->row_step +
                                     static_cast<std::size_t>(place.x) * piece->step;
        count_tile<1, 1>(*piece, nullptr, &window, tables.of[0], sums);
        for (int o = piece->first; o < piece->last; ++o) all[0][0][o] = sums[0][0][o];
      }
      finish_some<1>(rows, place, 0, all);
    }
  }
}

// Where rows are short, tiles go on from row to row.
template <int Panels>
void bconv_rows(const BConvRows* panels) {
  static constexpr decltype(&count_tile<1, Panels>) tiles[BYTE_TILE] = {count_tile<1, Panels>, count_tile<2, Panels>,
                                                                        count_tile<3, Panels>, count_tile<4, Panels>,
                                                                        count_tile<5, Panels>, count_tile<6, Panels>};
  const WordPiece& piece = *panels->pieces;
  const auto* second = static_cast<const std::uint8_t*>(panels[Panels - 1].pieces->weights);
  Place place{0, 0, {}};
  for (int n = 0; n < Panels; ++n) place.end[n] = panels[n].end;
  const std::uint8_t* row = piece.in;
  const int together = panels->width < WIDE ? panels->rows : 1;  // rows
  const int total = together * panels->width, cuts = (total + BYTE_TILE - 1) / BYTE_TILE;
  for (int tile = 0, x = 0; tile < cuts * panels->rows / together; ++tile) {
    const int positions = total / cuts + (tile % cuts < total % cuts ? 1 : 0);
    const std::uint8_t* windows[BYTE_TILE];
    for (int p = 0; p < positions; ++p) {
      windows[p] = row + static_cast<std::size_t>(x) * piece.step;
      if (++x == panels->width) {
        x = 0;
        row += piece.row_step;
      }
    }
    alignas(32) Sums sums[BYTE_TILE];
    tiles[positions - 1](piece, second, windows, tables.of[0], sums);
    finish_tile(panels, Panels, place, positions, sums);
  }
}

void rows(const BConvRows* panels, int count) {
  bool is_one_group = true;
  for (int n = 0; n < count; ++n) is_one_group = is_one_group && panels[n].count == 1;
  if (is_one_group && count == 2 && panels[0].pieces->in == panels[1].pieces->in) return bconv_rows<2>(panels);
  for (int n = 0; n < count; ++n) panels[n].count == 1 ? bconv_rows<1>(panels + n) : bconv_pieces(panels[n]);
}

void split(const std::uint64_t* codes, std::size_t words, int positions, std::uint8_t* to, std::size_t bytes) {
  const __m128i upper = _mm_set1_epi8(static_cast<char>(0xf0));
  for (int x = 0; x < positions; ++x, codes += words, to += bytes) {
    for (std::size_t k = 0; 16 * k < bytes; ++k) {
      const __m128i word = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + k));
      const __m128i low = _mm_and_si128(_mm_slli_epi16(word, 4), upper), high = _mm_and_si128(word, upper);
      const __m128i both = _mm_unpacklo_epi8(low, high);
      if (16 * k + 16 <= bytes) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 16 * k), both);
      } else {
        alignas(16) std::uint8_t rest[16];
        _mm_store_si128(reinterpret_cast<__m128i*>(rest), both);
        for (std::size_t b = 16 * k; b < bytes; ++b) to[b] = rest[b - 16 * k];
      }
    }
  }
}

// Sums have 16 bits.
bool can(const BConvShape& shape) { return shape.ins().largest() * shape.taps() <= 65535; }

// Positions in lanes serve groups better, and output channels that leave much of a panel empty.
bool suits(const BConvShape& shape) {
  const int lanes = (shape.out + PANEL - 1) / PANEL * PANEL;
  return can(shape) && shape.groups == 1 && shape.out >= 2 * PANEL && 16 * shape.out >= 15 * lanes;
}

}  // namespace

extern const WordKernels words__avx2;
const WordKernels words__avx2 = {1, MOST_PANELS, can, suits, rows, split};

}  // namespace ftbnn
