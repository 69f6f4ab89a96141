// Words of 32 bits, four output channels to a vector: eor, cnt and add of bytes for 128 products. A tile of up to 4
// positions x 4 vectors is counted in registers; bytes are widened before they overflow and added pairwise, so the sums
// of neighbouring channels come out side by side.
#include "kernels/bconv/words.h"

#include <cstring>
#include <utility>

#include "kernels/bconv/bconv.h"
#include "kernels/epilogue/epilogue__neon.h"

namespace ftbnn {

namespace {

constexpr int BIT_TILE = 4;                          // positions, and vectors
constexpr int VECTOR = 4;                            // channels
constexpr int SEGMENT = 28;                          // words, 4 at a time, whose counts fit into bytes: 28 x 8 < 256
constexpr std::size_t WORD = 4, ROW = PANEL * WORD;  // bytes, of one channel and of all

using Sums = std::uint16_t[PANEL];  // of a position

// The words of a piece's window at some positions, `step` bytes apart.
template <int Positions>
struct Windows {
  const std::uint8_t* first;
  std::size_t step;
  uint32x4_t words[Positions];

  template <int Words>
  inline void load(std::size_t at) {
#pragma GCC unroll 4
    for (int p = 0; p < Positions; ++p) {
      const std::uint8_t* from = first + static_cast<std::size_t>(p) * step + at;
      if constexpr (Words == 4) words[p] = vreinterpretq_u32_u8(vld1q_u8(from));
      if constexpr (Words == 2) words[p] = vreinterpretq_u32_u8(vcombine_u8(vld1_u8(from), vdup_n_u8(0)));
    }
  }

  inline void load_one(std::size_t at, std::uint32_t mask) {
    for (int p = 0; p < Positions; ++p) {
      std::uint32_t word;
      std::memcpy(&word, first + static_cast<std::size_t>(p) * step + at, sizeof word);
      words[p] = vdupq_n_u32(word & mask);  // weights are 0 there
    }
  }
};

// Counts of word `Which` of those that are loaded. What is volatile keeps its order, so one word is done before the
// next is begun: else GCC loads and adds for several at once, and runs out of registers.
template <int Which, int Vectors, int Positions>
__attribute__((always_inline)) inline void count_word(Windows<Positions>& windows, const std::uint8_t* weights,
                                                      uint8x16_t (&acc)[Positions][Vectors]) {
  __asm__ volatile("" : "+r"(weights));
#pragma GCC unroll 4
  for (int p = 0; p < Positions; ++p) __asm__ volatile("" : "+w"(windows.words[p]));
  uint8x16_t w[Vectors];
#pragma GCC unroll 4
  for (int v = 0; v < Vectors; ++v) w[v] = vld1q_u8(weights + 16 * v);
#pragma GCC unroll 4
  for (int p = 0; p < Positions; ++p) {
    const uint8x16_t code = vreinterpretq_u8_u32(vdupq_laneq_u32(windows.words[p], Which));
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      const uint8x16_t count = vcntq_u8(veorq_u8(code, w[v]));
      __asm__ volatile("add %0.16b, %0.16b, %1.16b" : "+w"(acc[p][v]) : "w"(count));
    }
  }
}

template <int Vectors, int Positions, int... Which>
__attribute__((always_inline)) inline void count_words(std::integer_sequence<int, Which...>,
                                                       Windows<Positions>& windows, const std::uint8_t* weights,
                                                       uint8x16_t (&acc)[Positions][Vectors]) {
  (count_word<Which>(windows, weights + Which * ROW, acc), ...);
}

// Bytes of four channels to a vector become sums of eight.
template <int Vectors>
inline void add_up(const uint8x16_t (&acc)[Vectors], bool is_first, std::uint16_t* sums) {
#pragma GCC unroll 2
  for (int v = 0; v < Vectors; v += 2, sums += 2 * VECTOR) {
    const bool is_half = v + 1 == Vectors;
    const uint16x8_t pop = vpaddq_u16(vpaddlq_u8(acc[v]), vpaddlq_u8(acc[is_half ? v : v + 1]));
    if (is_half) {
      const uint16x4_t half = vget_low_u16(pop);
      vst1_u16(sums, is_first ? half : vadd_u16(vld1_u16(sums), half));
    } else {
      vst1q_u16(sums, is_first ? pop : vaddq_u16(vld1q_u16(sums), pop));
    }
  }
}

// Sums of so many vectors of channels, from `vector` on. A function of its own: registers are full.
template <int Vectors, int Positions>
__attribute__((noinline)) void count_tile(const WordPiece& piece, const std::uint8_t* window, int vector, Sums* sums) {
  Windows<Positions> windows{window, piece.step, {}};
  const std::uint8_t* w = static_cast<const std::uint8_t*>(piece.weights) + vector * VECTOR * WORD;
  const std::uint32_t* offsets = piece.offsets;
  const int total = piece.whole + piece.cut;
  int k = 0;
  do {
    const int start = k, end = total - k < SEGMENT ? total : k + SEGMENT;
    const int whole = end < piece.whole ? end : piece.whole;
    uint8x16_t acc[Positions][Vectors];
#pragma GCC unroll 4
    for (int p = 0; p < Positions; ++p) {
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) acc[p][v] = vdupq_n_u8(0);
    }
    while (k < end) {
      if (k + 4 <= whole && offsets[k + 3] == offsets[k] + 3 * WORD) {
        windows.template load<4>(offsets[k]);
        count_words(std::make_integer_sequence<int, 4>{}, windows, w, acc);
        k += 4;
        w += 4 * ROW;
      } else if (k + 2 <= whole && offsets[k + 1] == offsets[k] + WORD) {
        windows.template load<2>(offsets[k]);
        count_words(std::make_integer_sequence<int, 2>{}, windows, w, acc);
        k += 2;
        w += 2 * ROW;
      } else {
        windows.load_one(offsets[k], k < piece.whole ? ~0U : static_cast<std::uint32_t>(piece.mask));
        count_word<0>(windows, w, acc);
        ++k;
        w += ROW;
      }
    }
#pragma GCC unroll 4
    for (int p = 0; p < Positions; ++p) {
      add_up(acc[p], start == 0, sums[p] + vector * VECTOR);
    }
  } while (k < total);
}

// Cuts into as few parts of up to `most` as it takes, of nearly equal sizes: part(first, size).
template <typename Part>
inline void in_parts(int first, int last, int most, const Part& part) {
  for (int parts = (last - first + most - 1) / most; parts > 0; --parts) {
    const int size = (last - first) / parts;
    part(first, size);
    first += size;
  }
}

// The sums of a piece, and maybe of channels up to the next four behind it, which are the next piece's.
template <int Positions>
void count_piece(const WordPiece& piece, int y, int x, Sums* sums) {
  static constexpr decltype(&count_tile<1, 1>) tiles[BIT_TILE] = {count_tile<1, Positions>, count_tile<2, Positions>,
                                                                  count_tile<3, Positions>, count_tile<4, Positions>};
  const std::uint8_t* window =
      piece.in + static_cast<std::size_t>(y) * piece.row_step + static_cast<std::size_t>(x) * piece.step;
  // The first vector may have channels of the piece before: their sums are put back.
  const int before = piece.first % VECTOR;
  std::uint16_t* shared = sums[0] + piece.first - before;
  std::uint16_t kept[Positions][VECTOR];
  for (int p = 0; before != 0 && p < Positions; ++p) std::memcpy(kept[p], shared + p * PANEL, sizeof kept[p]);
  in_parts(piece.first / VECTOR, (piece.last + VECTOR - 1) / VECTOR, BIT_TILE,
           [&](int vector, int vectors) { tiles[vectors - 1](piece, window, vector, sums); });
  for (int p = 0; p < Positions; ++p) {
    for (int o = 0; o < before; ++o) shared[p * PANEL + o] = kept[p][o];
  }
}

template <int Positions>
void finish_half(const BConvRows& rows, const Epilogue& end, const float* bases, int first, int x, const Sums* sums) {
  const float32x4_t worth = vdupq_n_f32(rows.worth);
  const std::uint8_t* border = rows.column_border + x;
  Floats acc[Positions];
  const auto subtract = [&](int p, const Floats& base) {
    const uint16x8_t low = vld1q_u16(sums[p] + first), high = vld1q_u16(sums[p] + first + 8);
    const uint32x4_t pop[PARTS] = {vmovl_u16(vget_low_u16(low)), vmovl_high_u16(low), vmovl_u16(vget_low_u16(high)),
                                   vmovl_high_u16(high)};
    repeat<PARTS>([&](auto k) { acc[p].part[k] = vfmsq_f32(base.part[k], worth, vcvtq_f32_u32(pop[k])); });
  };
  if (border[0] == border[Positions - 1]) {  // and so all between
    const Floats base = load_floats(bases + border[0] * PANEL + first);
    repeat<Positions>([&](auto p) { subtract(p, base); });
  } else {
    repeat<Positions>([&](auto p) { subtract(p, load_floats(bases + border[p] * PANEL + first)); });
  }
  finish(end, rows.channels, first, static_cast<std::size_t>(x), acc);
}

template <int Positions>
void bconv_tile(const BConvRows& rows, const Epilogue& end, int y, int x) {
  Sums sums[Positions];
  if (rows.channels % LANES != 0) std::memset(sums, 0, sizeof sums);  // those behind are read too
  for (int k = 0; k < rows.count; ++k) count_piece<Positions>(rows.pieces[k], y, x, sums);
  const float* bases = rows.base + rows.row_border[y] * rows.row_base;
  for (int first = 0; first < rows.channels; first += LANES) {
    finish_half<Positions>(rows, end, bases, first, x, sums);
  }
}

void rows(const BConvRows* panels, int) {
  static constexpr decltype(&bconv_tile<1>) tiles[BIT_TILE] = {bconv_tile<1>, bconv_tile<2>, bconv_tile<3>,
                                                               bconv_tile<4>};
  Epilogue end = panels->end;
  for (int y = 0; y < panels->rows; ++y, next_row(end)) {
    in_parts(0, panels->width, BIT_TILE, [&](int x, int positions) { tiles[positions - 1](*panels, end, y, x); });
  }
}

// Sums have 16 bits.
bool can(const BConvShape& shape) { return shape.ins().largest() * shape.taps() <= 65535; }

}  // namespace

extern const WordKernels words__neon;
const WordKernels words__neon = {WORD, 1, can, can, rows, nullptr};

}  // namespace ftbnn
