// A table is a vector register, and vpermw looks 32 lanes up in it at once.
#include "kernels/conv_grad/tables.h"

#include "kernels/conv_grad/packed_operands__avx512.h"
#include "kernels/conv_grad/product.h"

namespace ftbnn {

namespace {

constexpr int MOST_LOOK_UPS = 32767 / (TABLE_TERMS * 127);  // whose sum 16 bits hold
constexpr int MOST_COLUMNS = 4;

// Rows of a tile of so many columns: the registers hold its sums, and what they are made of.
constexpr int most_rows(int columns) { return columns == 4 ? 6 : columns == 3 ? 8 : 12; }

constexpr int pieces(int total, int most) { return (total + most - 1) / most; }

// The codes that entries of a table multiply their numbers with, pair by pair of numbers, and what comes out where
// there is nothing, GRAD_ZERO.
struct Choices {
  static constexpr int PAIRS = (TABLE_TERMS + 1) / 2;
  alignas(64) std::int8_t of[PAIRS][2 * GRAD_LANES] = {};
  alignas(64) std::int16_t extra[GRAD_LANES] = {};
  constexpr explicit Choices(int off) {
    for (int entry = 0; entry < GRAD_LANES; ++entry) {
      for (int j = 0; j < TABLE_TERMS; ++j) {
        const int code = (entry >> j & 1) != 0 ? 1 : off;
        of[j / 2][2 * entry + j % 2] = static_cast<std::int8_t>(code);
        extra[entry] = static_cast<std::int16_t>(extra[entry] + GRAD_ZERO * code);
      }
    }
  }
};
constexpr Choices signs(-1), zeros_and_ones(0);

void build(const void* left, std::size_t stride, int rows, int length, bool zero_one, char* tables, std::size_t step) {
  const Choices& choices = zero_one ? zeros_and_ones : signs;
  const __m512i extra = _mm512_load_si512(choices.extra);
  __m512i codes[Choices::PAIRS];
  for (int pair = 0; pair < Choices::PAIRS; ++pair) codes[pair] = _mm512_load_si512(choices.of[pair]);
  for (int r = 0; r < rows; ++r) {
    const char* numbers = static_cast<const char*>(left) + r * stride;
    char* to = tables + r * TABLE_BYTES;
    for (int k = 0; k < length; ++k, numbers += TABLE_TERMS, to += step) {
      const auto sums_of = [&](int pair) {
        short two;
        __builtin_memcpy(&two, numbers + 2 * pair, sizeof two);
        return _mm512_maddubs_epi16(_mm512_set1_epi16(two), codes[pair]);
      };
      const __m512i first = _mm512_add_epi16(sums_of(0), sums_of(1)), last = _mm512_sub_epi16(sums_of(2), extra);
      _mm512_store_si512(to, _mm512_add_epi16(first, last));
    }
  }
}

struct Indices : SignBits {
  static constexpr int packed = TABLE_TERMS;
  static constexpr std::size_t row_bytes = TABLE_BYTES;

  void store(void* to, const std::uint32_t (&bits)[packed], const bool (&)[packed]) const {
    __m512i lanes = _mm512_setzero_si512();
#pragma GCC unroll 5
    for (int j = 0; j < packed; ++j) {
      lanes = _mm512_mask_add_epi16(lanes, bits[j], lanes, _mm512_set1_epi16(static_cast<short>(1 << j)));
    }
    _mm512_store_si512(to, lanes);
  }
};

void pack_codes(const std::uint64_t* const* from, int count, int first, int words, void* to) {
  pack_codes(from, count, first, words, Indices(), to);
}

void pack_signs(const float* proxies, std::size_t row, int outs, int lanes, int taps, void* to, std::size_t tap_stride,
                int depth) {
  pack_signs(proxies, row, outs, lanes, taps, Indices(), to, tap_stride, depth);
}

// Totals are those of even lanes, then those of odd ones: a multiplication with 1 and 0 widens and adds.
inline void widen(__m512i sums, std::int32_t* totals) {
  const __m512i even = _mm512_dpwssd_epi32(_mm512_load_si512(totals), sums, _mm512_set1_epi32(1));
  const __m512i odd = _mm512_dpwssd_epi32(_mm512_load_si512(totals + LANES), sums, _mm512_set1_epi32(1 << 16));
  _mm512_store_si512(totals, even);
  _mm512_store_si512(totals + LANES, odd);
}

template <int Rows, int Columns>
void add_tile(const TableSums& task, int row, int column) {
  const char* tables = task.tables + row * TABLE_BYTES;
  const char* indices[Columns];
  for (int c = 0; c < Columns; ++c) indices[c] = task.indices + task.columns[column + c];
  std::int32_t* const totals = task.totals + column * task.column_size + static_cast<std::size_t>(row) * GRAD_LANES;
  __m512i sums[Rows][Columns] = {};
  const auto keep_totals = [&] {
#pragma GCC unroll 24
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < Columns; ++c) {
        widen(sums[r][c], totals + c * task.column_size + static_cast<std::size_t>(r) * GRAD_LANES);
        sums[r][c] = _mm512_setzero_si512();
      }
    }
  };
  int room = MOST_LOOK_UPS;
  for (const TableRun* run = task.runs; run != task.runs + task.run_count; ++run) {
    const char* table = tables + run->left;
    std::size_t right = run->right;
    for (int left = run->length; left > 0;) {
      if (room == 0) {
        keep_totals();
        room = MOST_LOOK_UPS;
      }
      const int count = left < room ? left : room;
      left -= count;
      room -= count;
      for (int k = 0; k < count; ++k, table += task.step, right += TABLE_BYTES) {
        __m512i which[Columns];
#pragma GCC unroll 4
        for (int c = 0; c < Columns; ++c) which[c] = _mm512_load_si512(indices[c] + right);
#pragma GCC unroll 24
        for (int r = 0; r < Rows; ++r) {
          const __m512i entries = _mm512_load_si512(table + r * TABLE_BYTES);
#pragma GCC unroll 4
          for (int c = 0; c < Columns; ++c) {
            sums[r][c] = _mm512_add_epi16(sums[r][c], _mm512_permutexvar_epi16(which[c], entries));
          }
        }
      }
    }
  }
  keep_totals();
}

template <int Rows, int Columns>
void add_rows(const TableSums& task, int rows, int row, int column) {
  if constexpr (Rows > 0) {
    if (rows == Rows) return add_tile<Rows, Columns>(task, row, column);
    add_rows<Rows - 1, Columns>(task, rows, row, column);
  }
}

// As few tiles as it takes, of nearly equal sizes.
template <int Columns>
void add_columns(const TableSums& task, int columns, int column) {
  if constexpr (Columns > 0) {
    if (columns != Columns) return add_columns<Columns - 1>(task, columns, column);
    constexpr int most = most_rows(Columns);
    const int count = pieces(task.rows, most);
    for (int tile = 0, row = 0; tile < count; ++tile) {
      const int rows = (task.rows - row) / (count - tile);
      add_rows<most, Columns>(task, rows, row, column);
      row += rows;
    }
  }
}

// In the width that takes the fewest tiles.
void add(const TableSums& task) {
  const auto tiles = [&](int width) { return pieces(task.rows, most_rows(width)) * pieces(task.column_count, width); };
  int best = MOST_COLUMNS;
  for (int width = MOST_COLUMNS - 1; width > 0; --width) best = tiles(width) < tiles(best) ? width : best;
  const int count = pieces(task.column_count, best);
  for (int set = 0, column = 0; set < count; ++set) {
    const int columns = (task.column_count - column) / (count - set);
    add_columns<MOST_COLUMNS>(task, columns, column);
    column += columns;
  }
}

void finish(const TableFloats& task) {
  const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i high = _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
  const std::int32_t* totals = task.totals;
  float* out = task.out;
  for (int r = 0; r < task.rows; ++r, totals += GRAD_LANES, out += GRAD_LANES) {
    const __m512i even = _mm512_load_si512(totals), odd = _mm512_load_si512(totals + LANES);
    const __m512 step = _mm512_set1_ps(task.steps[r]);
    const __m512i extra = _mm512_set1_epi32(task.extra == nullptr ? 0 : task.extra[r]);
    for (int half = 0; half < 2; ++half) {
      const __m512i sums = _mm512_permutex2var_epi32(even, half == 0 ? low : high, odd);
      const __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(sums, extra)), step);
      float* to = out + half * LANES;
      _mm512_store_ps(to, task.adds ? _mm512_add_ps(_mm512_load_ps(to), value) : value);
    }
  }
}

}  // namespace

extern const TableKernels tables__avx512vnni;
const TableKernels tables__avx512vnni = {build, pack_codes, pack_signs, add, finish};

double look_up_roof__avx512vnni(int steps);

// Look-ups and their additions in registers.
double look_up_roof__avx512vnni(int steps) {
  constexpr int count = 12;
  __m512i sums[count] = {}, entries = _mm512_setzero_si512(), which = entries;
  for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (__m512i& sum : sums) {
      keep(which);
      sum = _mm512_add_epi16(sum, _mm512_permutexvar_epi16(which, entries));
      keep(sum);
    }
  }
  return static_cast<double>(count) * GRAD_LANES * TABLE_TERMS * steps;
}

}  // namespace ftbnn
