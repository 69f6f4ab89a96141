// The loops of dots.h, written once for all x86 ISAs: a file brings the epilogue, Integers and Floats (vectors of LANES
// of 32 bits), TILE positions x VECTORS of output channels that are summed at a time, and
//   spread(p)  the four bytes at p in every lane       quads(p)  as many as there are lanes from memory
//   floats(v)  as floats                               fused(a, b, c) = a * b + c, where a is a number
// A `Dot` has add(acc, pixels, weights), the product of quads.
#pragma once

#include <cstring>

#include "kernels/stem/dots.h"

namespace ftbnn {

namespace {

// 48 bytes of three channels to 16 of each.
inline void split_three(const std::uint8_t* from, __m128i (&to)[3]) {
  const auto load = [&](int k) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 16 * k)); };
  const __m128i a = load(0), b = load(1), c = load(2);
  const auto join = [&](__m128i first, __m128i second, __m128i third) {
    return _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(a, first), _mm_shuffle_epi8(b, second)),
                        _mm_shuffle_epi8(c, third));
  };
  to[0] = join(_mm_setr_epi8(0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1),
               _mm_setr_epi8(-1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14, -1, -1, -1, -1, -1),
               _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 4, 7, 10, 13));
  to[1] = join(_mm_setr_epi8(1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1),
               _mm_setr_epi8(-1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1),
               _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14));
  to[2] = join(_mm_setr_epi8(2, 5, 8, 11, 14, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1),
               _mm_setr_epi8(-1, -1, -1, -1, -1, 1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1),
               _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15));
}

inline void put(__m128i bytes, std::uint8_t* to) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes); }
inline void put(__m128i bytes, std::uint16_t* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_cvtepu8_epi16(bytes));
}

template <typename Pixel>
void planes(const PlaneRow& row) {
  int x = 0;
  if (row.channels == 3) {
    for (; x + 16 <= row.width; x += 16) {
      __m128i parts[3];
      split_three(row.in + 3 * x, parts);
      for (int c = 0; c < 3; ++c) put(parts[c], reinterpret_cast<Pixel*>(row.out[c]) + x);
    }
  }
  for (; x < row.width; ++x) {
    for (int c = 0; c < row.channels; ++c) {
      const Pixel pixel = row.in[x * row.channels + c];
      std::memcpy(row.out[c] + x * sizeof(Pixel), &pixel, sizeof(Pixel));
    }
  }
}

// Positions at an edge, each with the offset of its class.
template <int Positions>
__attribute__((noinline)) void end_apart(const DotRow& row, int first, int x, const Floats (&y)[Positions]) {
  Epilogue end = row.end;
  for (int p = 0; p < Positions; ++p) {
    Floats one[1] = {y[p]};
    end.shift = row.offset + row.border[x + p] * PANEL;
    finish(end, row.channels, first, static_cast<std::size_t>(x + p), one);
  }
}

// The sums of a plane. The empty asm keeps GCC from moving them from register to register.
template <typename Dot, int Positions, int Vectors>
inline void add_up(const DotRow& row, const std::uint8_t* in, const std::int32_t* weights,
                   Integers (&sums)[Vectors][Positions]) {
  const auto step = static_cast<std::size_t>(row.step);
#pragma GCC unroll 4
  for (int v = 0; v < Vectors; ++v) {
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) sums[v][p] = Integers{};
  }
  for (int k = 0; k < row.quads; ++k, weights += PANEL) {
    const std::uint8_t* at = in + row.places[k];
    Integers w[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) w[v] = quads(weights + v * LANES);
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) {
      const Integers pixels = spread(at + static_cast<std::size_t>(p) * step);
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) {
        sums[v][p] = Dot::add(sums[v][p], pixels, w[v]);
        asm("" : "+v"(sums[v][p]));
      }
    }
  }
}

// Channels from `first` on.
template <typename Dot, int Positions, int Vectors>
void tile(const DotRow& row, int x, int first) {
  const std::uint8_t* in = row.in + static_cast<std::size_t>(x) * static_cast<std::size_t>(row.step);
  const std::int32_t* weights = row.weights + first;
  Integers sums[Vectors][Positions];
  Floats y[Vectors][Positions];
  add_up<Dot>(row, in, weights, sums);
#pragma GCC unroll 4
  for (int v = 0; v < Vectors; ++v) {
#pragma GCC unroll 16
    for (int p = 0; p < Positions; ++p) y[v][p] = floats(sums[v][p]);
  }
  for (int plane = 1; plane < row.planes; ++plane) {
    in += row.plane_stride;
    weights += static_cast<std::size_t>(row.quads) * PANEL;
    add_up<Dot>(row, in, weights, sums);
    const Floats ratio = number(row.ratio[plane]);
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
#pragma GCC unroll 16
      for (int p = 0; p < Positions; ++p) y[v][p] = fused(ratio, floats(sums[v][p]), y[v][p]);
    }
  }
  if (x < row.inner || x + Positions > row.outer) {
    Floats there[Vectors][Positions];  // in memory, so that y need not be
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
#pragma GCC unroll 16
      for (int p = 0; p < Positions; ++p) there[v][p] = y[v][p];
      end_apart(row, first + v * LANES, x, there[v]);
    }
    return;
  }
  Epilogue end = row.end;
  end.shift = row.offset + row.border[x] * PANEL;
#pragma GCC unroll 4
  for (int v = 0; v < Vectors; ++v) finish(end, row.channels, first + v * LANES, static_cast<std::size_t>(x), y[v]);
}

template <typename Dot, int Most, int Vectors>
inline void tile_of(int positions, const DotRow& row, int x, int first) {
  if constexpr (Most > 0) {
    if (positions == Most) return tile<Dot, Most, Vectors>(row, x, first);
    tile_of<Dot, Most - 1, Vectors>(positions, row, x, first);
  }
}

// Cuts the row into as few tiles as it takes, of nearly equal sizes.
template <typename Dot, int Vectors>
void cut(const DotRow& row, int first) {
  const int count = (row.width + TILE - 1) / TILE;
  for (int number = 0, x = 0, positions; number < count; ++number, x += positions) {
    positions = (row.width - x) / (count - number);
    tile_of<Dot, TILE, Vectors>(positions, row, x, first);
  }
}

template <typename Dot>
void dot_row(const DotRow& row) {
  int first = 0;
  for (; first + VECTORS * LANES <= row.channels; first += VECTORS * LANES) cut<Dot, VECTORS>(row, first);
  for (; first < row.channels; first += LANES) cut<Dot, 1>(row, first);
}

}  // namespace

}  // namespace ftbnn
