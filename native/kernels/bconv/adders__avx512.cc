// Full adders of VPTERNLOG, for CPUs that count no bits in vectors: 512 or 256 output channels at once.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in GCC 12's own header of intrinsics
#endif
#include "kernels/bconv/adders.h"

#include <cstring>

#include "base/aligned.h"
#include "kernels/epilogue/epilogue__avx512.h"

namespace ftbnn {

namespace {

constexpr int BLOCK = 8;                               // quads whose tables are in the cache together
constexpr int POSITIONS = 128;                         // whose digits are, in the next one
constexpr int FINISHED = 8;                            // positions that become numbers at a time
constexpr int MAJORITIES = 8, TABLE = 2 + MAJORITIES;  // digits of three weights
constexpr int KEPT = 7;  // digits that a block adds to in registers; carries go into the others

struct Wide {
  using V = __m512i;
  static constexpr std::size_t BYTES = 64;
  static constexpr int LANES = 512;
  static V load(const void* from) { return _mm512_load_si512(from); }
  static void store(void* to, V v) { _mm512_store_si512(to, v); }
  static V zero() { return _mm512_setzero_si512(); }
  template <int Truth>
  static V logic(V a, V b, V c) {
    return _mm512_ternarylogic_epi64(a, b, c, Truth);
  }
  static V even(int mask) { return _mm512_set1_epi8(static_cast<char>(mask)); }
  template <int Bits>
  static V left(V v) {
    return _mm512_slli_epi16(v, Bits);
  }
  template <int Bits>
  static V right(V v) {
    return _mm512_srli_epi16(v, Bits);
  }
  static V low(V a, V b) { return _mm512_unpacklo_epi8(a, b); }
  static V high(V a, V b) { return _mm512_unpackhi_epi8(a, b); }
};

struct Narrow {
  using V = __m256i;
  static constexpr std::size_t BYTES = 32;
  static constexpr int LANES = 256;
  static V load(const void* from) { return _mm256_load_si256(static_cast<const V*>(from)); }
  static void store(void* to, V v) { _mm256_store_si256(static_cast<V*>(to), v); }
  static V zero() { return _mm256_setzero_si256(); }
  template <int Truth>
  static V logic(V a, V b, V c) {
    return _mm256_ternarylogic_epi64(a, b, c, Truth);
  }
  static V even(int mask) { return _mm256_set1_epi8(static_cast<char>(mask)); }
  template <int Bits>
  static V left(V v) {
    return _mm256_slli_epi16(v, Bits);
  }
  template <int Bits>
  static V right(V v) {
    return _mm256_srli_epi16(v, Bits);
  }
  static V low(V a, V b) { return _mm256_unpacklo_epi8(a, b); }
  static V high(V a, V b) { return _mm256_unpackhi_epi8(a, b); }
};

constexpr int XOR = 0x96, CHOOSE = 0xca;  // truth tables of (a, b, c): a ^ b ^ c, a ? b : c

// Of the majority of three weights and a pattern of codes.
constexpr int majority(int pattern) {
  int truth = 0;
  for (int k = 0; k < 8; ++k) {
    const int a = (k >> 2 & 1) ^ (pattern & 1), b = (k >> 1 & 1) ^ (pattern >> 1 & 1), c = (k & 1) ^ (pattern >> 2);
    truth |= (a + b + c >= 2 ? 1 : 0) << k;
  }
  return truth;
}

// `sum` becomes sum ^ a ^ b, and what carries is given: of the new sum too a function of three digits, which takes the
// place of `a`.
template <typename D>
__attribute__((always_inline)) inline typename D::V add(typename D::V& sum, typename D::V a, typename D::V b) {
  sum = D::template logic<XOR>(sum, a, b);
  return D::template logic<0xb2>(a, sum, b);  // the majority of (sum ^ a ^ b, a, b)
}
template <typename D>
__attribute__((always_inline)) inline typename D::V add(typename D::V& sum, typename D::V a) {
  return add<D>(sum, a, D::zero());
}

// The tables of threes of weights.
template <typename D>
__attribute__((noinline)) void make_tables(const std::uint8_t* weights, int threes, std::uint8_t* to) {
  for (int k = 0; k < threes; ++k, weights += 3 * D::BYTES, to += TABLE * D::BYTES) {
    const auto a = D::load(weights), b = D::load(weights + D::BYTES), c = D::load(weights + 2 * D::BYTES);
    const auto put = [&](int at, typename D::V digit) {
      D::store(to + static_cast<std::size_t>(at) * D::BYTES, digit);
    };
    put(0, D::template logic<XOR>(a, b, c));
    put(1, D::template logic<255 - XOR>(a, b, c));
    put(2, D::template logic<majority(0)>(a, b, c));
    put(3, D::template logic<majority(1)>(a, b, c));
    put(4, D::template logic<majority(2)>(a, b, c));
    put(5, D::template logic<majority(3)>(a, b, c));
    put(6, D::template logic<majority(4)>(a, b, c));
    put(7, D::template logic<majority(5)>(a, b, c));
    put(8, D::template logic<majority(6)>(a, b, c));
    put(9, D::template logic<majority(7)>(a, b, c));
  }
}

// The digits that a position adds.
template <typename D>
struct Picked {
  const std::uint8_t *tables, *quad;
  __attribute__((always_inline)) typename D::V parity(int k) const { return pick(k, 0, quad[2 * k]); }
  __attribute__((always_inline)) typename D::V majority(int k) const { return pick(k, 2, quad[2 * k + 1]); }

 private:
  __attribute__((always_inline)) typename D::V pick(int k, int digit, std::uint8_t index) const {
    return D::load(tables + static_cast<std::size_t>(k * TABLE + digit) * D::BYTES + index * (D::BYTES / 8));
  }
};

// What follows gives three carries into the next digit.
template <typename D>
__attribute__((always_inline)) inline void add_quad(const Picked<D>& from, typename D::V* sums,
                                                    typename D::V (&carries)[3]) {
  const auto first = add<D>(sums[0], from.parity(0), from.parity(1));
  carries[0] = add<D>(sums[1], from.majority(0), from.majority(1));
  const auto second = add<D>(sums[0], from.parity(2), from.parity(3));
  carries[1] = add<D>(sums[1], from.majority(2), from.majority(3));
  carries[2] = add<D>(sums[1], first, second);
}

template <typename D>
__attribute__((always_inline)) inline void join(typename D::V& sum, typename D::V (&first)[3],
                                                const typename D::V (&second)[3]) {
  first[0] = add<D>(sum, first[0], first[1]);
  first[1] = add<D>(sum, second[0], second[1]);
  first[2] = add<D>(sum, first[2], second[2]);
}

template <typename D, int Quads>
__attribute__((always_inline)) inline void add_quads(const std::uint8_t* tables, const std::uint64_t* at,
                                                     const std::uint32_t* offsets, typename D::V* sums, int digit,
                                                     typename D::V (&carries)[3]) {
  if constexpr (Quads == 1) {
    add_quad<D>({tables, reinterpret_cast<const std::uint8_t*>(at + *offsets)}, sums, carries);
  } else {
    constexpr int half = Quads / 2;
    typename D::V others[3];
    add_quads<D, half>(tables, at, offsets, sums, digit - 1, carries);
    add_quads<D, half>(tables + half * 4 * TABLE * D::BYTES, at, offsets + half, sums, digit - 1, others);
    join<D>(sums[digit], carries, others);
  }
}

// A block of quads at some positions: where[p] is a position's first quad.
template <typename D>
__attribute__((noinline)) void add_block(const std::uint8_t* tables, const std::uint64_t* quads,
                                         const std::uint32_t* where, const std::uint32_t* offsets, int positions,
                                         int digits, std::uint8_t* to) {
  using V = typename D::V;
  for (int p = 0; p < positions; ++p, to += static_cast<std::size_t>(digits) * D::BYTES) {
    V sums[KEPT];
#pragma GCC unroll 8
    for (int k = 0; k < KEPT; ++k) sums[k] = D::load(to + static_cast<std::size_t>(k) * D::BYTES);
    V carries[3];
    add_quads<D, BLOCK>(tables, quads + where[p], offsets, sums, 4, carries);
    const V first = add<D>(sums[5], carries[0], carries[1]), second = add<D>(sums[5], carries[2]);
    V carry = add<D>(sums[6], first, second);
#pragma GCC unroll 8
    for (int k = 0; k < KEPT; ++k) D::store(to + static_cast<std::size_t>(k) * D::BYTES, sums[k]);
#pragma GCC unroll 2
    for (int k = KEPT; k < digits; ++k) {
      V sum = D::load(to + static_cast<std::size_t>(k) * D::BYTES);
      carry = add<D>(sum, carry);
      D::store(to + static_cast<std::size_t>(k) * D::BYTES, sum);
    }
  }
}

// Of vectors `Step` apart, the blocks of Step x Step bits that `low` leaves out change places.
template <typename D, int Step>
__attribute__((always_inline)) inline void swap_blocks(typename D::V (&v)[8], int low) {
  const typename D::V mask = D::even(low);
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) {
    if ((k & Step) != 0) continue;
    const typename D::V a = v[k], b = v[k + Step];
    v[k] = D::template logic<CHOOSE>(mask, a, D::template left<Step>(b));
    v[k + Step] = D::template logic<CHOOSE>(mask, D::template right<Step>(a), b);
  }
}

// Of eight digits the bits 8 j to 8 j + 7 become bytes j of eight vectors.
template <typename D>
__attribute__((always_inline)) inline void transpose(typename D::V (&v)[8]) {
  swap_blocks<D, 4>(v, 0x0f);
  swap_blocks<D, 2>(v, 0x33);
  swap_blocks<D, 1>(v, 0x55);
}

template <typename D>
__attribute__((noinline)) void to_numbers(const std::uint8_t* from, int digits, std::int16_t* to) {
  typename D::V low[8], high[8];
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) {
    low[k] = k < digits ? D::load(from + static_cast<std::size_t>(k) * D::BYTES) : D::zero();
    high[k] = 8 + k < digits ? D::load(from + static_cast<std::size_t>(8 + k) * D::BYTES) : D::zero();
  }
  transpose<D>(low);
  transpose<D>(high);
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k, to += D::LANES / 8) {
    D::store(to, D::low(low[k], high[k]));
    D::store(to + D::LANES / 16, D::high(low[k], high[k]));
  }
}

// An output row.
struct Row {
  const AddRows& rows;
  const float* base;
  Epilogue end;
};

// Numbers of `Positions` positions, the first of them x, to results.
template <int Positions>
void finish_some(const Row& row, int x, const std::int16_t* numbers, std::size_t stride) {
  const AddRows& rows = row.rows;
  const __m512 worth = _mm512_set1_ps(rows.worth);
  const std::uint8_t* border = rows.column_border + x;
  for (int panel = 0; panel * PANEL < rows.channels; ++panel) {
    const Epilogue end = of_panel(row.end, panel);
    const int left = rows.channels - panel * PANEL, channels = left < PANEL ? left : PANEL;
    const float* base = row.base + static_cast<std::size_t>(panel) * rows.panel_base;
    for (int first = 0; first < channels; first += LANES) {
      const std::int16_t* from = numbers + panel * PANEL + first;
      __m512 y[Positions];
#pragma GCC unroll 8
      for (int p = 0; p < Positions; ++p, from += stride) {
        const __m256i pop = _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
        y[p] = _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi16_epi32(0xffff, pop));
        y[p] = _mm512_fnmadd_ps(worth, y[p], _mm512_loadu_ps(base + border[p] * PANEL + first));
      }
      finish(end, channels, first, static_cast<std::size_t>(x), y);
    }
  }
}

template <typename D>
void finish_row(const Row& row, const std::uint8_t* digits, std::int16_t* numbers) {
  const std::size_t position = static_cast<std::size_t>(row.rows.digits) * D::BYTES;
  for (int x = 0; x < row.rows.width; x += FINISHED) {
    const int left = row.rows.width - x, count = left < FINISHED ? left : FINISHED;
    for (int p = 0; p < count; ++p, digits += position) to_numbers<D>(digits, row.rows.digits, numbers + p * D::LANES);
    if (count == FINISHED) {
      finish_some<FINISHED>(row, x, numbers, D::LANES);
      continue;
    }
    if (count & 4) finish_some<4>(row, x, numbers, D::LANES);
    if (count & 2) finish_some<2>(row, x + (count & 4), numbers + (count & 4) * D::LANES, D::LANES);
    if (count & 1) finish_some<1>(row, x + (count & 6), numbers + (count & 6) * D::LANES, D::LANES);
  }
}

constexpr std::size_t TABLES = BLOCK * 4 * TABLE * Wide::BYTES;
constexpr std::size_t NUMBERS = FINISHED * MOST_LANES * sizeof(std::int16_t);

// Output rows whose digits are kept at a time.
int rows_at_once(int width) { return width < POSITIONS ? POSITIONS / width : 1; }

std::size_t positions_at_once(int width) { return static_cast<std::size_t>(rows_at_once(width) * width); }
std::size_t where_bytes(int width) { return round_up(positions_at_once(width) * sizeof(std::uint32_t), CACHE_LINE); }

std::size_t scratch(int width, int digits) {
  const std::size_t bytes = static_cast<std::size_t>(digits) * Wide::BYTES;
  return TABLES + NUMBERS + where_bytes(width) + positions_at_once(width) * bytes;
}

template <typename D>
void add_rows(const AddRows& rows) {
  auto* tables = static_cast<std::uint8_t*>(rows.scratch);
  auto* numbers = reinterpret_cast<std::int16_t*>(tables + TABLES);
  auto* where = reinterpret_cast<std::uint32_t*>(tables + TABLES + NUMBERS);
  std::uint8_t* digits = tables + TABLES + NUMBERS + where_bytes(rows.width);
  const std::size_t row_bytes = static_cast<std::size_t>(rows.width * rows.digits) * D::BYTES;
  // Of nearly equal numbers of rows.
  const int most = rows_at_once(rows.width), parts = (rows.rows + most - 1) / most;
  Row row{rows, nullptr, rows.end};
  for (int part = 0, y = 0; part < parts; ++part) {
    const int last = rows.rows * (part + 1) / parts;
    std::memset(digits, 0, static_cast<std::size_t>(last - y) * row_bytes);
    std::uint32_t* position = where;
    for (int line = y; line < last; ++line) {
      const std::size_t first = static_cast<std::size_t>(line) * rows.row_step;
      for (int x = 0; x < rows.width; ++x) *position++ = static_cast<std::uint32_t>(first + x * rows.step);
    }
    for (int quad = 0; quad < rows.count; quad += BLOCK) {
      const int count = rows.count - quad < BLOCK ? rows.count - quad : BLOCK;
      make_tables<D>(rows.weights + static_cast<std::size_t>(quad * QUAD_DIGITS) * D::BYTES, 4 * count, tables);
      std::uint32_t offsets[BLOCK];
      for (int k = 0; k < BLOCK; ++k) offsets[k] = rows.offsets[quad + (k < count ? k : 0)];
      const std::size_t made = static_cast<std::size_t>(count * 4 * TABLE) * D::BYTES;
      std::memset(tables + made, 0, BLOCK * 4 * TABLE * D::BYTES - made);
      add_block<D>(tables, rows.quads, where, offsets, (last - y) * rows.width, rows.digits, digits);
    }
    for (const std::uint8_t* from = digits; y < last; ++y, from += row_bytes, next_row(row.end)) {
      row.base = rows.base + rows.row_border[y] * rows.row_base;
      finish_row<D>(row, from, numbers);
    }
  }
}

void rows(const AddRows& rows) { rows.lanes > Narrow::LANES ? add_rows<Wide>(rows) : add_rows<Narrow>(rows); }

void spread(const std::uint64_t* codes, std::size_t words, int positions, int quads, std::uint64_t* to) {
  constexpr std::uint64_t patterns = 0x0007000700070007, ones = 0x0001000100010001;
  for (int p = 0; p < positions; ++p, codes += words) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(codes);
    for (int k = 0; k < quads; ++k) {
      std::uint32_t bits;
      std::memcpy(&bits, bytes + QUAD_CHANNELS * k / 8, sizeof bits);
      const std::uint64_t of = _pdep_u64(bits >> QUAD_CHANNELS * k % 8, patterns);
      *to++ = of << 11 | ((of ^ of >> 1 ^ of >> 2) & ones) << 3;
    }
  }
}

}  // namespace

extern const AdderKernels adders__avx512;
const AdderKernels adders__avx512 = {spread, scratch, rows};

}  // namespace ftbnn
