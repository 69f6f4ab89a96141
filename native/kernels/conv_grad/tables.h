// Products of bytes with codes by look-up: the contract of its kernels.
//
// Five gradients have 32 sums, one for each five codes; a table is those sums, of 16 bits, and one look-up with five
// bits of codes replaces five multiplications in each of 32 lanes. Sums are whole numbers, exact as in products
// (conv_grad.h), and give the same bits.
//
// A left operand is rows of bytes, [row][depth]; a table is of five neighbours of the depth, and the tables of several
// rows lie side by side. A right operand is vectors of 32 indices of 16 bits, 64 bytes on a cache line.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ftbnn {

constexpr int TABLE_TERMS = 5;
constexpr std::size_t TABLE_BYTES = 64;  // of a table, and of a vector of indices

// Tables that follow each other, and as many vectors of indices: where both start, in bytes.
struct TableRun {
  std::size_t left, right;
  int length;
};

// totals[column][row][lane] += what is looked up, over all runs. Table k of a run is left + k * step, the next row's 64
// bytes behind; its indices are columns[column] + right + k * 64.
struct TableSums {
  const char* tables;
  std::size_t step;
  const char* indices;
  const std::size_t* columns;
  const TableRun* runs;
  int run_count, rows, column_count;
  std::int32_t* totals;     // [columns][rows][32], in an order of lanes that only kernels know; on cache lines
  std::size_t column_size;  // numbers from one column's totals to the next one's
};

// out[row][32] = (adds ? out : 0) + step * (total - extra)
struct TableFloats {
  const std::int32_t* totals;
  int rows;
  const std::int32_t* extra;  // [rows], or null for none
  const float* steps;         // [rows]
  float* out;
  bool adds;
};

struct TableKernels {
  // Tables of `length` x 5 numbers of each row, for codes of -1 and +1, or of 0 and 1. One byte more is read behind
  // each row.
  void (*build)(const void* left, std::size_t stride, int rows, int length, bool zero_one, char* tables,
                std::size_t step);
  // Right operands, as GradKernels has them: bit j of lane c of vector k is the code of from[5 k + j]'s bit `first` +
  // c, 0 if that is null; count is a multiple of 5.
  void (*pack_codes)(const std::uint64_t* const* from, int count, int first, int words, void* to);
  // Vectors of taps are tap_stride / 5 / 32 vectors apart; rows past `outs` are 0 up to depth, a multiple of 5.
  void (*pack_signs)(const float* proxies, std::size_t row, int outs, int lanes, int taps, void* to,
                     std::size_t tap_stride, int depth);
  void (*add)(const TableSums&);
  void (*finish)(const TableFloats&);
};

}  // namespace ftbnn
