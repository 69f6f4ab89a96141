// Nibbles in lanes of output channels, as with AVX2: a code's nibble chooses a table of sixteen counts, the weights of
// 16 channels are its indices. ARM looks them up in one instruction and x86 in one to three, where i8x16.popcnt is
// eight of x86. How, look_up(table, indices) of the including file says: indices are below 16.
#pragma once

#include "kernels/bconv/bconv.h"
#include "kernels/bconv/words.h"
#include "kernels/epilogue/epilogue__simd128.h"

namespace ftbnn {

namespace {

constexpr int BYTES = 16;          // of a vector, and so channels
constexpr int MOST_POSITIONS = 2;  // x 4 vectors of sums: with 3, some of 16 registers would be spilled
constexpr int SEGMENT = 63;        // steps whose counts, 4 at most, fit into bytes
constexpr int MOST_RUNS = 64;      // rows of a kernel
constexpr int WIDE = 24;           // positions of a row that fill tiles by themselves

// Entry [code][weight] is the number of bits in which they differ.
struct Tables {
  alignas(16) std::uint8_t of[16][16] = {};
  constexpr Tables() {
    for (unsigned a = 0; a < 16; ++a) {
      for (unsigned w = 0; w < 16; ++w) of[a][w] = static_cast<std::uint8_t>(__builtin_popcount(a ^ w));
    }
  }
};
constexpr Tables tables;

using Sums = std::uint16_t[MOST_PANELS * PANEL];  // of a position, panels side by side

inline void widen(v128_t bytes, bool adds, std::uint16_t* to) {
  v128_t low = wasm_u16x8_extend_low_u8x16(bytes), high = wasm_u16x8_extend_high_u8x16(bytes);
  if (adds) {
    low = wasm_i16x8_add(low, wasm_v128_load(to));
    high = wasm_i16x8_add(high, wasm_v128_load(to + 8));
  }
  wasm_v128_store(to, low);
  wasm_v128_store(to + 8, high);
}

// Steps whose nibbles are neighbours: those of a kernel row. A loop over them has no addresses to look up.
struct Runs {
  int count = 0;
  int start[MOST_RUNS + 1];

  explicit Runs(const WordPiece& piece) {
    for (int k = 0; k < piece.whole; ++k) {
      if (k == 0 || piece.offsets[k] != piece.offsets[k - 1] + 1) start[count++] = k;
    }
    start[count] = piece.whole;
  }
};

// Weights of vectors 0 and 1 are the first panel's, of 2 and 3 the second's.
template <int Positions, int Vectors>
void count_tile(const WordPiece& piece, const Runs& runs, const std::uint8_t* second,
                const std::uint8_t* const* windows, Sums* sums) {
  const std::uint8_t* first = static_cast<const std::uint8_t*>(piece.weights);
  const std::ptrdiff_t between = second - first;
  v128_t acc[Positions][Vectors];
  int room = 0;  // steps until sums of bytes may overflow
  bool adds = false;
  const auto clear = [&] {
#pragma unroll
    for (int p = 0; p < Positions; ++p) {
#pragma unroll
      for (int v = 0; v < Vectors; ++v) acc[p][v] = wasm_i8x16_const_splat(0);
    }
    room = SEGMENT;
  };
  const auto flush = [&] {
#pragma unroll
    for (int p = 0; p < Positions; ++p) {
#pragma unroll
      for (int v = 0; v < Vectors; ++v) widen(acc[p][v], adds, sums[p] + v * BYTES);
    }
    adds = true;
  };
  clear();
  for (int run = 0; run < runs.count; ++run) {
    const std::uint8_t* codes[Positions];
#pragma unroll
    for (int p = 0; p < Positions; ++p) codes[p] = windows[p] + piece.offsets[runs.start[run]];
    for (int left = runs.start[run + 1] - runs.start[run]; left > 0;) {
      if (room == 0) {
        flush();
        clear();
      }
      const int steps = left < room ? left : room;
      left -= steps;
      room -= steps;
      const std::uint8_t* end = first + steps * PANEL;
      do {
        v128_t counts[Positions];
#pragma unroll
        for (int p = 0; p < Positions; ++p) counts[p] = wasm_v128_load(tables.of[0] + *codes[p]++);
#pragma unroll
        for (int v = 0; v < Vectors; ++v) {
          const v128_t weights = wasm_v128_load(first + (v < 2 ? 0 : between) + v % 2 * BYTES);
#pragma unroll
          for (int p = 0; p < Positions; ++p) acc[p][v] = wasm_i8x16_add(acc[p][v], look_up(counts[p], weights));
        }
        first += PANEL;
      } while (first != end);
    }
  }
  flush();
}

// Where a position is among the rows of one panel or two.
struct Place {
  int y, x;
  Epilogue end[MOST_PANELS];  // of row y
};

// Counts of neighbours in a row to sums, then the epilogue, of one panel.
template <int Positions>
void finish_some(const BConvRows& rows, const Place& place, int panel, const Sums* sums) {
  const v128_t worth = wasm_f32x4_splat(rows.worth);
  const std::uint8_t* border = rows.column_border + place.x;
  const float* bases = rows.base + rows.row_border[place.y] * rows.row_base;
  for (int first = 0; first < rows.channels; first += HALF * LANES) {
    v128_t y[HALF][Positions];
#pragma unroll
    for (int v = 0; v < HALF; ++v) {
      const int o = first + v * LANES;
#pragma unroll
      for (int p = 0; p < Positions; ++p) {
        const v128_t count = wasm_f32x4_convert_i32x4(wasm_u32x4_load16x4(sums[p] + panel * PANEL + o));
        const v128_t base = wasm_v128_load(bases + border[p] * PANEL + o);
        y[v][p] = wasm_f32x4_sub(base, wasm_f32x4_mul(worth, count));
      }
    }
    finish(place.end[panel], rows.channels, first, static_cast<std::size_t>(place.x), y);
  }
}

void finish_tile(const BConvRows* panels, int count, Place& place, int positions, const Sums* sums) {
  static constexpr void (*some[MOST_POSITIONS])(const BConvRows&, const Place&, int, const Sums*) = {finish_some<1>,
                                                                                                     finish_some<2>};
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
      Sums all[1], sums[1];
      for (const WordPiece* piece = rows.pieces; piece != rows.pieces + rows.count; ++piece) {
        const std::uint8_t* window = piece->in + static_cast<std::size_t>(place.y) * piece->row_step +
                                     static_cast<std::size_t>(place.x) * piece->step;
        count_tile<1, 2>(*piece, Runs(*piece), nullptr, &window, sums);
        for (int o = piece->first; o < piece->last; ++o) all[0][o] = sums[0][o];
      }
      finish_some<1>(rows, place, 0, all);
    }
  }
}

// Where rows are short, tiles go on from row to row.
template <int Vectors>
void bconv_rows(const BConvRows* panels) {
  static constexpr decltype(&count_tile<1, Vectors>) tiles[MOST_POSITIONS] = {count_tile<1, Vectors>,
                                                                              count_tile<2, Vectors>};
  constexpr int count = Vectors > 2 ? 2 : 1;
  const WordPiece& piece = *panels->pieces;
  const auto* second = static_cast<const std::uint8_t*>(panels[count - 1].pieces->weights);
  const Runs runs(piece);
  Place place{0, 0, {}};
  for (int n = 0; n < count; ++n) place.end[n] = panels[n].end;
  const std::uint8_t* row = piece.in;
  const int together = panels->width < WIDE ? panels->rows : 1;  // rows
  const int total = together * panels->width, cuts = (total + MOST_POSITIONS - 1) / MOST_POSITIONS;
  for (int tile = 0, x = 0; tile < cuts * panels->rows / together; ++tile) {
    const int positions = total / cuts + (tile % cuts < total % cuts ? 1 : 0);
    const std::uint8_t* windows[MOST_POSITIONS];
    for (int p = 0; p < positions; ++p) {
      windows[p] = row + static_cast<std::size_t>(x) * piece.step;
      if (++x == panels->width) {
        x = 0;
        row += piece.row_step;
      }
    }
    Sums sums[MOST_POSITIONS];
    tiles[positions - 1](piece, runs, second, windows, sums);
    finish_tile(panels, count, place, positions, sums);
  }
}

void rows(const BConvRows* panels, int count) {
  const bool is_one_group = panels[0].count == 1 && panels[count - 1].count == 1;
  if (is_one_group && count == 2 && panels[0].pieces->in == panels[1].pieces->in) return bconv_rows<4>(panels);
  for (int n = 0; n < count; ++n) {
    panels[n].count > 1           ? bconv_pieces(panels[n])
    : panels[n].channels <= BYTES ? bconv_rows<1>(panels + n)
                                  : bconv_rows<2>(panels + n);
  }
}

void split(const std::uint64_t* codes, std::size_t words, int positions, std::uint8_t* to, std::size_t bytes) {
  const v128_t upper = wasm_u8x16_const_splat(0xf0);
  for (int x = 0; x < positions; ++x, codes += words, to += bytes) {
    for (std::size_t k = 0; 16 * k < bytes; ++k) {
      const v128_t word = wasm_v128_load64_zero(codes + k);
      const v128_t low = wasm_i8x16_shl(word, 4), high = wasm_v128_and(word, upper);
      const v128_t both = wasm_i8x16_shuffle(low, high, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      if (16 * k + 16 <= bytes) {
        wasm_v128_store(to + 16 * k, both);
      } else {
        std::uint8_t rest[16];
        wasm_v128_store(rest, both);
        for (std::size_t b = 16 * k; b < bytes; ++b) to[b] = rest[b - 16 * k];
      }
    }
  }
}

// Sums have 16 bits.
bool can(const BConvShape& shape) { return shape.ins().largest() * shape.taps() <= 65535; }

}  // namespace

}  // namespace ftbnn
