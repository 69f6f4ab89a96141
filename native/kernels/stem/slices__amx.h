// The tile kernel of slices.h, written once for Tiles and EmulatedTiles: 32 positions at a time, slice by slice;
// the sums of the 32 before are finished meanwhile, for tile products leave the vector units idle.
#pragma once

#include "base/tiles.h"
#include "kernels/epilogue/epilogue__avx512.h"
#include "kernels/stem/slices.h"

namespace ftbnn {

namespace {

constexpr int BLOCK = 32;  // positions
constexpr std::size_t TILE_SIZE = TILE_ROWS * TILE_BYTES;

inline void patches(const PatchRow& row) {
  for (int x = 0; x < row.width; ++x) {
    std::int8_t* to = row.patches + static_cast<std::size_t>(x) * row.depth;
    for (int ky = 0; ky < row.kh; ++ky, to += row.run) {
      const std::int8_t* in = row.in + ky * row.row_stride + static_cast<std::size_t>(x) * row.step;
      for (int k = 0; k < row.run; k += 64) {
        const __mmask64 bytes = row.run - k >= 64 ? ~__mmask64{0} : (__mmask64{1} << (row.run - k)) - 1;
        _mm512_mask_storeu_epi8(to + k, bytes, _mm512_maskz_loadu_epi8(bytes, in + k));
      }
    }
  }
}

struct Sums {
  alignas(64) std::int32_t of[SLICES][BLOCK][PANEL];
};

// Positions [first, last) of the row, whose sums start at position `start`.
inline void finish(const SlicedRow& row, const Sums& sums, int start, int first, int last) {
  const __m512 high = _mm512_set1_ps(65536.0F);
  Epilogue end = row.end;
  for (int x = first; x < last; ++x) {
    const int p = x - start;
    end.shift = row.offset + row.border[x] * PANEL;
    for (int at = 0; at < row.channels; at += LANES) {
      const __m512i one = _mm512_load_si512(sums.of[1][p] + at);
      const __m512i low =
          _mm512_add_epi32(_mm512_maskz_slli_epi32(0xffff, one, 8), _mm512_load_si512(sums.of[0][p] + at));
      const __m512 top = _mm512_maskz_cvtepi32_ps(0xffff, _mm512_load_si512(sums.of[2][p] + at));
      __m512 acc[1] = {_mm512_fmadd_ps(high, top, _mm512_maskz_cvtepi32_ps(0xffff, low))};
      finish(end, row.channels, at, static_cast<std::size_t>(x), acc);
    }
  }
}

// Tiles 0 to 3 are sums [positions][channels], 4 and 5 patches, 6 and 7 weights.
template <typename Registers, int Rows>
inline void multiply(const SlicedRow& row, int x, int slice, Sums& sums) {
  const auto depth = static_cast<std::size_t>(row.depth);
  const std::int8_t* patches = row.patches + static_cast<std::size_t>(x) * depth;
  const std::int8_t* weights = row.weights + static_cast<std::size_t>(slice) * depth * PANEL;
  Registers::template zero<0>();
  Registers::template zero<1>();
  if constexpr (Rows == 2) Registers::template zero<2>();
  if constexpr (Rows == 2) Registers::template zero<3>();
  for (std::size_t k = 0; k < depth; k += TILE_BYTES, weights += 2 * TILE_SIZE) {
    Registers::template load<4>(patches + k, depth);
    Registers::template load<6>(weights, TILE_BYTES);
    Registers::template dot_i8<0, 4, 6>();
    Registers::template load<7>(weights + TILE_SIZE, TILE_BYTES);
    Registers::template dot_i8<1, 4, 7>();
    if constexpr (Rows == 2) {
      Registers::template load<5>(patches + TILE_ROWS * depth + k, depth);
      Registers::template dot_i8<2, 5, 6>();
      Registers::template dot_i8<3, 5, 7>();
    }
  }
  constexpr std::size_t stride = PANEL * sizeof(std::int32_t);
  Registers::template store<0>(sums.of[slice][0], stride);
  Registers::template store<1>(sums.of[slice][0] + LANES, stride);
  if constexpr (Rows == 2) Registers::template store<2>(sums.of[slice][TILE_ROWS], stride);
  if constexpr (Rows == 2) Registers::template store<3>(sums.of[slice][TILE_ROWS] + LANES, stride);
}

template <typename Registers>
void multiply_row(const SlicedRow& row) {
  static constexpr TileConfig config = full_tiles();
  Sums sums[2];
  Registers::configure(config);
  int waiting = 0;  // positions before x whose sums are not finished yet
  for (int x = 0; x < row.width; x += BLOCK) {
    Sums& now = sums[x / BLOCK % 2];
    const Sums& before = sums[(x / BLOCK + 1) % 2];
    const int start = x - waiting;
    for (int slice = 0; slice < SLICES; ++slice) {
      row.width - x > TILE_ROWS ? multiply<Registers, 2>(row, x, slice, now)
                                : multiply<Registers, 1>(row, x, slice, now);
      finish(row, before, start, start + waiting * slice / SLICES, start + waiting * (slice + 1) / SLICES);
    }
    waiting = row.width - x < BLOCK ? row.width - x : BLOCK;
  }
  Registers::release();
  const int start = row.width - waiting;
  finish(row, sums[start / BLOCK % 2], start, start, row.width);
}

}  // namespace

}  // namespace ftbnn
