// Four products of bytes to a lane (SDOT), for weights of 8 bits. Both factors have a sign, so of a pixel x it
// multiplies x - 128. Two quads of a window's row that lie side by side are one load.
#include "kernels/stem/dots.h"

#include "kernels/epilogue/epilogue__neon.h"

namespace ftbnn {

namespace {

constexpr int TILE = 4;  // positions x 4 vectors: 16 sums, 4 weights, 4 of pixels of 32 registers
constexpr int MIDDLE = 128;

void planes(const PlaneRow& row) {
  int x = 0;
  if (row.channels == 3) {
    for (; x + 16 <= row.width; x += 16) {
      const uint8x16x3_t parts = vld3q_u8(row.in + 3 * x);
      for (int c = 0; c < 3; ++c) vst1q_u8(row.out[c] + x, parts.val[c]);
    }
  }
  for (; x < row.width; ++x) {
    for (int c = 0; c < row.channels; ++c) row.out[c][x] = row.in[x * row.channels + c];
  }
}

template <int Positions>
using Sums = int32x4_t[Positions][PARTS];

// Quad `Which` of the two of each position.
template <int Which, int Positions>
inline void multiply_add(const uint8x8_t (&pixels)[Positions], const std::int32_t* weights, Sums<Positions>& sums) {
  int8x16_t w[PARTS];
#pragma GCC unroll 4
  for (int k = 0; k < PARTS; ++k) w[k] = vreinterpretq_s8_s32(vld1q_s32(weights + 4 * k));
#pragma GCC unroll 4
  for (int p = 0; p < Positions; ++p) {
#pragma GCC unroll 4
    for (int k = 0; k < PARTS; ++k) {
      sums[p][k] = vdotq_lane_s32(sums[p][k], w[k], vreinterpret_s8_u8(pixels[p]), Which);
    }
  }
}

// The sums of a plane.
template <int Positions>
inline void add_up(const DotRow& row, const std::uint8_t* in, const std::int32_t* weights, const std::int32_t* start,
                   Sums<Positions>& sums) {
  const auto step = static_cast<std::size_t>(row.step);
  const uint8x8_t middle = vdup_n_u8(MIDDLE);
#pragma GCC unroll 4
  for (int p = 0; p < Positions; ++p) {
#pragma GCC unroll 4
    for (int k = 0; k < PARTS; ++k) sums[p][k] = vld1q_s32(start + 4 * k);
  }
  uint8x8_t pixels[Positions];
  for (int k = 0; k < row.quads;) {
    const std::uint8_t* at = in + row.places[k];
    if (k + 2 <= row.quads && row.places[k + 1] == row.places[k] + 4) {
#pragma GCC unroll 4
      for (int p = 0; p < Positions; ++p) pixels[p] = veor_u8(vld1_u8(at + p * step), middle);
      multiply_add<0>(pixels, weights, sums);
      multiply_add<1>(pixels, weights + PANEL, sums);
      k += 2;
      weights += 2 * PANEL;
      continue;
    }
#pragma GCC unroll 4
    for (int p = 0; p < Positions; ++p) {
      std::uint32_t quad;
      __builtin_memcpy(&quad, at + p * step, sizeof quad);
      pixels[p] = veor_u8(vcreate_u8(quad), middle);
    }
    multiply_add<0>(pixels, weights, sums);
    ++k;
    weights += PANEL;
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

// Channels from `first` on.
template <int Positions>
void tile(const DotRow& row, int x, int first) {
  const std::uint8_t* in = row.in + static_cast<std::size_t>(x) * static_cast<std::size_t>(row.step);
  const std::int32_t *weights = row.weights + first, *start = row.start + first;
  Sums<Positions> sums;
  Floats y[Positions];
  add_up<Positions>(row, in, weights, start, sums);
#pragma GCC unroll 4
  for (int p = 0; p < Positions; ++p) {
#pragma GCC unroll 4
    for (int k = 0; k < PARTS; ++k) y[p].part[k] = vcvtq_f32_s32(sums[p][k]);
  }
  for (int plane = 1; plane < row.planes; ++plane) {
    in += row.plane_stride;
    weights += static_cast<std::size_t>(row.quads) * PANEL;
    start += PANEL;
    add_up<Positions>(row, in, weights, start, sums);
    const float ratio = row.ratio[plane];
#pragma GCC unroll 4
    for (int p = 0; p < Positions; ++p) {
#pragma GCC unroll 4
      for (int k = 0; k < PARTS; ++k) y[p].part[k] = vfmaq_n_f32(y[p].part[k], vcvtq_f32_s32(sums[p][k]), ratio);
    }
  }
  if (x < row.inner || x + Positions > row.outer) return end_apart(row, first, x, y);
  Epilogue end = row.end;
  end.shift = row.offset + row.border[x] * PANEL;
  finish(end, row.channels, first, static_cast<std::size_t>(x), y);
}

// Cuts the row into as few tiles as it takes, of nearly equal sizes.
void dot_row(const DotRow& row) {
  static constexpr void (*tiles[TILE])(const DotRow&, int, int) = {tile<1>, tile<2>, tile<3>, tile<4>};
  const int count = (row.width + TILE - 1) / TILE;
  for (int first = 0; first < row.channels; first += LANES) {
    for (int number = 0, x = 0, positions; number < count; ++number, x += positions) {
      positions = (row.width - x) / (count - number);
      tiles[positions - 1](row, x, first);
    }
  }
}

}  // namespace

// Of 16 bits there is no such product: floats do as many at a time.
extern const DotKernels dots__dotprod;
const DotKernels dots__dotprod = {{planes, dot_row}, {nullptr, nullptr}, MIDDLE};

}  // namespace ftbnn
