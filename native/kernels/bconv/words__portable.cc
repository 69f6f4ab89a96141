// For any CPU: plain loops over channels that the compiler turns into the vectors of its baseline (SSE2, NEON).
#include "kernels/bconv/words.h"

#include <cstring>

#include "kernels/epilogue/epilogue__portable.h"

namespace ftbnn {

namespace {

constexpr int BLOCK = 30;  // words whose counts fit into bytes, in groups of three: 10 x 24 < 256

// Bits of each byte's nibbles, 0 to 4 each: the first two steps of the usual parallel count.
inline std::uint64_t nibbles(std::uint64_t word) {
  constexpr std::uint64_t pairs = 0x3333333333333333;
  word -= word >> 1 & 0x5555555555555555;
  return (word & pairs) + (word >> 2 & pairs);
}

// Three words of every channel: a full adder makes two of them (worth 1 and 2), which saves a third of the counting.
inline void count(const std::uint64_t* in, const std::uint64_t* w, std::uint64_t* bytes) {
  constexpr std::uint64_t low = 0x0f0f0f0f0f0f0f0f;
  const std::uint64_t in0 = in[0], in1 = in[1], in2 = in[2];
  for (int o = 0; o < PANEL; ++o) {
    const std::uint64_t a = in0 ^ w[o], b = in1 ^ w[PANEL + o];
    const std::uint64_t c = in2 ^ w[2 * PANEL + o];
    const std::uint64_t one = a ^ b ^ c, two = (a & b) | ((a ^ b) & c);
    const std::uint64_t twos = nibbles(two), sum = nibbles(one) + twos + twos;
    bytes[o] += (sum & low) + (sum >> 4 & low);
  }
}

inline void count_one(std::uint64_t in, const std::uint64_t* w, std::uint64_t* bytes) {
  constexpr std::uint64_t low = 0x0f0f0f0f0f0f0f0f;
  for (int o = 0; o < PANEL; ++o) {
    const std::uint64_t sum = nibbles(in ^ w[o]);
    bytes[o] += (sum & low) + (sum >> 4 & low);
  }
}

// Counts of a window, of all 32 channels; those outside of the piece are nobody's.
void count_window(const WordPiece& piece, int y, int x, std::int32_t* pop) {
  constexpr std::uint64_t even = 0x00ff00ff00ff00ff;
  std::uint64_t in[BLOCK], bytes[PANEL] = {};
  int filled = 0;
  const auto* w = static_cast<const std::uint64_t*>(piece.weights);
  const auto flush = [&] {
    int k = 0;
    for (; k + 3 <= filled; k += 3, w += 3 * PANEL) count(in + k, w, bytes);
    for (; k < filled; ++k, w += PANEL) count_one(in[k], w, bytes);
    for (int o = 0; o < PANEL; ++o) {
      std::uint64_t sum = (bytes[o] & even) + (bytes[o] >> 8 & even);
      sum += sum >> 32;
      sum += sum >> 16;
      pop[o] += static_cast<std::int32_t>(sum & 0xffff);
      bytes[o] = 0;
    }
    filled = 0;
  };
  const std::uint8_t* window =
      piece.in + static_cast<std::size_t>(y) * piece.row_step + static_cast<std::size_t>(x) * piece.step;
  for (int k = 0; k < piece.whole + piece.cut; ++k) {
    std::memcpy(in + filled, window + piece.offsets[k], sizeof(std::uint64_t));
    if (k >= piece.whole) in[filled] &= piece.mask;  // weights are 0 there
    if (++filled == BLOCK) flush();
  }
  flush();
}

void bconv_rows(const BConvRows& rows) {
  Epilogue end = rows.end;
  for (int y = 0; y < rows.rows; ++y, next_row(end)) {
    const float* bases = rows.base + rows.row_border[y] * rows.row_base;
    for (int x = 0; x < rows.width; ++x) {
      const float* base = bases + rows.column_border[x] * PANEL;
      float acc[PANEL];
      for (const WordPiece* piece = rows.pieces; piece != rows.pieces + rows.count; ++piece) {
        std::int32_t pop[PANEL] = {};
        count_window(*piece, y, x, pop);
        for (int o = piece->first; o < piece->last; ++o) acc[o] = base[o] - rows.worth * static_cast<float>(pop[o]);
      }
      finish(end, x, rows.channels, acc);
    }
  }
}

void rows(const BConvRows* panels, int) { bconv_rows(*panels); }

bool always(const BConvShape&) { return true; }

}  // namespace

extern const WordKernels words__portable;
const WordKernels words__portable = {sizeof(std::uint64_t), 1, always, always, rows, nullptr};

}  // namespace ftbnn
