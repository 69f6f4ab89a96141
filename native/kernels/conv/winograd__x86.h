// The loops of winograd.h, written once for both sizes of x86's vectors: a file brings Vector, LANES, fused(a, b, c) =
// a * b + c, spread, get and put, BLOCK tiles x VECTORS of output channels that are summed at a time, and the epilogue.
#pragma once

#include "kernels/conv/winograd.h"

namespace ftbnn {

namespace {

// B' d of six rows or columns.
inline void to_points(const Vector (&d)[POINTS], Vector (&to)[POINTS]) {
  const Vector four = spread(4), five = spread(-5), two = spread(2);
  const Vector even = fused(spread(-4), d[2], d[4]), odd = fused(spread(-4), d[1], d[3]);
  const Vector outer = d[4] - d[2], inner = d[3] - d[1];
  to[0] = fused(four, d[0], fused(five, d[2], d[4]));
  to[1] = even + odd;
  to[2] = even - odd;
  to[3] = fused(two, inner, outer);
  to[4] = fused(spread(-2), inner, outer);
  to[5] = fused(four, d[1], fused(five, d[3], d[5]));
}

// A' m of six.
inline void from_points(const Vector (&m)[POINTS], Vector (&to)[TILE]) {
  const Vector a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
  to[0] = m[0] + a + c;
  to[1] = fused(spread(2), d, b);
  to[2] = fused(spread(4), c, a) + m[5];
}

// Four by four, the last of a line again with some before them.
void split(const WinogradSplit& all) {
  std::size_t t = 0;
  for (; t + 4 <= all.count && all.width >= 4; t += 4) {
    const float* from = all.from + t * all.width;
    for (std::size_t k = 0; k < all.width; k += 4) {
      const std::size_t at = k + 4 <= all.width ? k : all.width - 4;
      __m128 rows[4];
      for (std::size_t r = 0; r < 4; ++r) rows[r] = _mm_loadu_ps(from + r * all.width + at);
      _MM_TRANSPOSE4_PS(rows[0], rows[1], rows[2], rows[3]);
      for (std::size_t r = 0; r < 4; ++r) _mm_storeu_ps(all.to + (at + r) * all.stride + t, rows[r]);
    }
  }
  for (; t < all.count; ++t) {
    for (std::size_t k = 0; k < all.width; ++k) all.to[k * all.stride + t] = all.from[t * all.width + k];
  }
}

void transform(const WinogradInputs& in) {
  const auto channels = static_cast<std::size_t>(in.channels), k = 4 * channels;
  for (std::size_t plane = 0; plane < k; ++plane) {  // [row % 2][column % 2][channel]
    const std::size_t side = plane / channels % 2, channel = plane % channels;
    const float* rows = in.rows + plane / channels / 2 * in.row_stride;
    for (std::size_t third = 0; third < 3; ++third) {
      const float* from = rows + ((2 * third + side) * channels + channel) * in.tiles;
      for (std::size_t t = 0; t < in.tiles; t += LANES) {
        Vector d[POINTS], points[POINTS];
        for (std::size_t i = 0; i < POINTS; ++i) d[i] = get(from + 2 * i * in.row_stride + t);
        to_points(d, points);
        for (std::size_t i = 0; i < POINTS; ++i) put(in.column + (i * 3 + third) * in.tiles + t, points[i]);
      }
    }
    for (std::size_t i = 0; i < POINTS; ++i) {
      const float* from = in.column + i * 3 * in.tiles;
      for (std::size_t t = 0; t < in.tiles; t += LANES) {
        Vector d[POINTS], points[POINTS];
        for (std::size_t j = 0; j < POINTS; ++j) d[j] = get(from + j % 3 * in.tiles + j / 3 + t);
        to_points(d, points);
        for (std::size_t j = 0; j < POINTS; ++j) put(in.v + ((i * POINTS + j) * k + plane) * in.tiles + t, points[j]);
      }
    }
  }
}

constexpr int WIDTH = VECTORS * LANES;  // output channels

// `Tiles` tiles of one point: v [k][tiles], u [k][PANEL] to m [Tiles][WIDTH].
template <int Tiles>
inline void multiply_tiles(const WinogradTiles& row, const float* v, const float* u, float* m) {
  Vector acc[Tiles][VECTORS];
#pragma GCC unroll 16
  for (int p = 0; p < Tiles; ++p) {
    for (int h = 0; h < VECTORS; ++h) acc[p][h] = spread(0);
  }
  for (int k = 0; k < row.k; ++k, v += row.tiles, u += PANEL) {
    Vector weights[VECTORS];
    for (int h = 0; h < VECTORS; ++h) weights[h] = get(u + h * LANES);
#pragma GCC unroll 16
    for (int p = 0; p < Tiles; ++p) {
      const Vector value = spread(v[p]);
      for (int h = 0; h < VECTORS; ++h) acc[p][h] = fused(value, weights[h], acc[p][h]);
    }
  }
#pragma GCC unroll 16
  for (int p = 0; p < Tiles; ++p) {
    for (int h = 0; h < VECTORS; ++h) put(m + p * WIDTH + h * LANES, acc[p][h]);
  }
}

// LANES channels of tile t from `first` on: m [points][BLOCK][WIDTH] to outputs.
inline void finish_tile(const WinogradTiles& row, const float* m, int t, int first) {
  constexpr std::size_t point = BLOCK * WIDTH;
  Vector half[TILE][POINTS];
#pragma GCC unroll 6
  for (std::size_t j = 0; j < POINTS; ++j) {
    Vector column[POINTS], three[TILE];
#pragma GCC unroll 6
    for (std::size_t i = 0; i < POINTS; ++i) column[i] = get(m + (i * POINTS + j) * point);
    from_points(column, three);
#pragma GCC unroll 3
    for (int i = 0; i < TILE; ++i) half[i][j] = three[i];
  }
  const int x = t * TILE;
  Epilogue end = row.end;
#pragma GCC unroll 3
  for (int i = 0; i < TILE; ++i) {
    if (i < row.first || i >= row.last) continue;
    Vector y[TILE];
    from_points(half[i], y);
    if (row.width - x >= TILE) {
      finish(end, row.channels, first, static_cast<std::size_t>(x), y);
    } else {
      for (int j = 0; x + j < row.width; ++j) {
        Vector one[1] = {y[j]};
        finish(end, row.channels, first, static_cast<std::size_t>(x + j), one);
      }
    }
    next_row(end);
  }
}

// Some tiles and channels at a time, so that their sums stay in the first cache until they are finished.
void multiply(const WinogradTiles& row) {
  const int tiles = (row.width + TILE - 1) / TILE, blocks = (tiles + BLOCK - 1) / BLOCK;
  for (int block = 0, start = 0, count; block < blocks; ++block, start += count) {
    count = (tiles - start + blocks - block - 1) / (blocks - block);
    for (int first = 0; first < row.channels; first += WIDTH) {
      const float* v = row.v + start;
      const float* u = row.u + first;
      float* m = row.m;
      for (int point = 0; point < POINTS * POINTS; ++point) {
        // What is made past the last tile nobody reads.
        count < BLOCK ? multiply_tiles<BLOCK - 1>(row, v, u, m) : multiply_tiles<BLOCK>(row, v, u, m);
        v += static_cast<std::size_t>(row.k) * row.tiles;
        u += static_cast<std::size_t>(row.k) * PANEL;
        m += BLOCK * WIDTH;
      }
      for (int t = 0; t < count; ++t) {
        for (int h = 0; h < WIDTH && first + h < row.channels; h += LANES) {
          finish_tile(row, row.m + t * WIDTH + h, start + t, first + h);
        }
      }
    }
  }
}

}  // namespace

}  // namespace ftbnn
