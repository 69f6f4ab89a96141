// Tiles: 32 rows x 32 lanes of sums in four of them, two of the left operand, two of the right: as many loads as
// products.
#pragma once

#include "base/tiles.h"
#include "kernels/conv_grad/bf16_operands.h"

namespace ftbnn {

namespace {

constexpr int DEPTH = 32;                                                                      // bf16 of a tile's row
constexpr std::size_t RIGHT_STRIDE = GRAD_LANES * 4, OUT_STRIDE = GRAD_LANES * sizeof(float);  // bytes

template <typename Registers>
void begin() {
  Registers::configure(full_tiles());
}

template <typename Registers>
void end() {
  Registers::release();
}

// Sums are tiles 0 to 3 (row tile * 2 + lane tile), 4 and 5 the left operand, 6 and 7 the right one.
template <typename Registers, bool TwoRows, bool TwoColumns>
void block(const GradProduct& task, int row) {
  constexpr std::size_t next_lanes = TILE_BYTES;
  const std::size_t stride = task.left_stride * 2, next_rows = TILE_ROWS * stride;
  char* out = reinterpret_cast<char*>(task.out + static_cast<std::size_t>(row) * GRAD_LANES);
  char* out_below = out + TILE_ROWS * OUT_STRIDE;
  if (task.adds) {
    Registers::template load<0>(out, OUT_STRIDE);
    if (TwoColumns) Registers::template load<1>(out + next_lanes, OUT_STRIDE);
    if (TwoRows) Registers::template load<2>(out_below, OUT_STRIDE);
    if (TwoRows && TwoColumns) Registers::template load<3>(out_below + next_lanes, OUT_STRIDE);
  } else {
    Registers::template zero<0>();
    if (TwoColumns) Registers::template zero<1>();
    if (TwoRows) Registers::template zero<2>();
    if (TwoRows && TwoColumns) Registers::template zero<3>();
  }
  for (int s = 0; s < task.segments; ++s) {
    const char* left = static_cast<const char*>(task.left) + (task.left_row[s] + row) * stride;
    const char* right = static_cast<const char*>(task.right) + task.right_at[s] * 2;
    for (int k = 0; k < task.depth; k += DEPTH, left += TILE_BYTES, right += TILE_ROWS * RIGHT_STRIDE) {
      Registers::template load<4>(left, stride);
      Registers::template load<6>(right, RIGHT_STRIDE);
      Registers::template dot_bf16<0, 4, 6>();
      if (TwoColumns) {
        Registers::template load<7>(right + next_lanes, RIGHT_STRIDE);
        Registers::template dot_bf16<1, 4, 7>();
      }
      if (TwoRows) {
        Registers::template load<5>(left + next_rows, stride);
        Registers::template dot_bf16<2, 5, 6>();
        if (TwoColumns) Registers::template dot_bf16<3, 5, 7>();
      }
    }
  }
  Registers::template store<0>(out, OUT_STRIDE);
  if (TwoColumns) Registers::template store<1>(out + next_lanes, OUT_STRIDE);
  if (TwoRows) Registers::template store<2>(out_below, OUT_STRIDE);
  if (TwoRows && TwoColumns) Registers::template store<3>(out_below + next_lanes, OUT_STRIDE);
}

template <typename Registers, bool TwoColumns>
void blocks(const GradProduct& task) {
  int row = 0;
  for (; row + TILE_ROWS < task.rows; row += 2 * TILE_ROWS) block<Registers, true, TwoColumns>(task, row);
  if (row < task.rows) block<Registers, false, TwoColumns>(task, row);
}

template <typename Registers>
void product(const GradProduct& task) {
  task.lanes > TILE_BYTES / 4 ? blocks<Registers, true>(task) : blocks<Registers, false>(task);
}

#if defined(FTBNN_BENCH)
template <typename Registers>
double roof(int steps) {
  begin<Registers>();
  for (int step = 0; step < steps; ++step) {
    Registers::template dot_bf16<0, 4, 6>();
    Registers::template dot_bf16<1, 4, 7>();
    Registers::template dot_bf16<2, 5, 6>();
    Registers::template dot_bf16<3, 5, 7>();
  }
  end<Registers>();
  return 4.0 * TILE_ROWS * (TILE_BYTES / 4) * DEPTH * steps;
}
#else
template <typename Registers>
constexpr double (*roof)(int) = nullptr;
#endif

template <typename Registers>
constexpr GradKernels kernels = {2,
                                 DEPTH,
                                 nullptr,
                                 bf16::pack_rows,
                                 bf16::pack_columns,
                                 bf16::pack_codes,
                                 bf16::pack_signs,
                                 begin<Registers>,
                                 product<Registers>,
                                 end<Registers>,
                                 bf16::scatter,
                                 roof<Registers>};

static_assert(GRAD_ROWS == TILE_ROWS, "whole tiles are loaded and stored");

}  // namespace

}  // namespace ftbnn
