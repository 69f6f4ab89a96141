// Tile registers (AMX).
//
// Eight tiles of up to 16 rows x 64 bytes, numbered at compile time, that belong to the calling thread:
//
// - Tiles::configure(config): shapes of all tiles, contents zero; must come first on every thread
// - Tiles::load<T>(from, stride): row r of tile T = its bytes at from + r * stride (stride in bytes)
// - Tiles::store<T>(to, stride): the other way
// - Tiles::zero<T>()
// - Tiles::dot_i8<C, A, B>(), TDPBSSD: C[m][n] += sum over k, j of A[m][k][j] * B[k][n][j], int8 x int8
// - Tiles::dot_u8i8<C, A, B>(), TDPBUSD: the same, A unsigned
// - Tiles::dot_bf16<C, A, B>(), TDPBF16PS: the same on pairs of bf16, C float
// - Tiles::release(): gives the registers back; a thread must not keep them over code it does not know
//
// C is [m][n] int32 (or float). A is [m][k][j], the operand whose rows lie as in a plain matrix: a row holds 64 int8
// (j < 4) or 32 bf16 (j < 2). B is [k][n][j]: its row k holds for every column n the 4 (or 2) values that go with A's
// dword k, so a plain matrix [K][N] must be arranged by fours (or pairs) of rows first. Hence rows(C) = rows(A),
// bytes(C) = bytes(B), bytes(A) / 4 = rows(B), and the three tiles differ.
//
// int32 sums wrap. bf16 products go to two float sums, one for each j, from k = 0 upwards, fused, rounded to nearest
// even, denormals taken and given as zero; C += even + odd comes last.
//
// Kernels take the class as a template parameter, so that tests run their very code on tiles in plain C++
// (tests/emulated). Everything here has internal linkage: files of different ISAs never share a copy. Assembly, for GCC
// 12's intrinsics let stores to what a tile reads be dropped.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ftbnn {

constexpr int TILE_ROWS = 16, TILE_BYTES = 64;

// The 64 bytes that LDTILECFG reads. Palette 1 is the only one there is: 8 tiles of 16 x 64.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  constexpr void set(int tile, int tile_rows, int bytes) {
    rows[tile] = static_cast<std::uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<std::uint16_t>(bytes);
  }
};
static_assert(sizeof(TileConfig) == 64, "LDTILECFG reads 64 bytes");

// All eight tiles in full.
constexpr TileConfig full_tiles() {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) config.set(tile, TILE_ROWS, TILE_BYTES);
  return config;
}

enum class TileDot { i8, u8i8, bf16 };

// One product c += a b: a [m][k dwords], b [k][n dwords], c [m][n dwords], each of 1 to 16.
template <typename Registers>
inline void tile_product(TileDot dot, int m, int n, int k, const void* a, const void* b, void* c) {
  TileConfig config;
  config.set(0, m, 4 * n);
  config.set(1, m, 4 * k);
  config.set(2, k, 4 * n);
  Registers::configure(config);
  Registers::template load<0>(c, static_cast<std::size_t>(4 * n));
  Registers::template load<1>(a, static_cast<std::size_t>(4 * k));
  Registers::template load<2>(b, static_cast<std::size_t>(4 * n));
  if (dot == TileDot::i8) {
    Registers::template dot_i8<0, 1, 2>();
  } else if (dot == TileDot::u8i8) {
    Registers::template dot_u8i8<0, 1, 2>();
  } else {
    Registers::template dot_bf16<0, 1, 2>();
  }
  Registers::template store<0>(c, static_cast<std::size_t>(4 * n));
  Registers::release();
}

// True if the tiles of this CPU multiply as they should: a machine that claims more than it has must not give wrong
// sums.
bool tiles_multiply(TileDot dot);

// True on guests that show AMX in CPUID but not how its tiles look (leaf 0x1D): libraries that ask for it, as oneDNN
// does, end in SIGILL there. Our own kernels do not ask.
bool hides_tile_palette();

namespace {

#define FTBNN_TILE_OPERATION [[gnu::always_inline]] static inline void

#if defined(__x86_64__)

// Operands in AT&T order: the destination is last, A before it, B first.
struct Tiles {
  FTBNN_TILE_OPERATION configure(const TileConfig& config) {
    __asm__ volatile("ldtilecfg %0" ::"m"(config) : "memory");
  }
  FTBNN_TILE_OPERATION release() { __asm__ volatile("tilerelease" ::: "memory"); }
  template <int T>
  FTBNN_TILE_OPERATION zero() {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(T));
  }
  template <int T>
  FTBNN_TILE_OPERATION load(const void* from, std::size_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(T) : "memory");
  }
  template <int T>
  FTBNN_TILE_OPERATION store(void* to, std::size_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(T) : "memory");
  }
  template <int C, int A, int B>
  FTBNN_TILE_OPERATION dot_i8() {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
  template <int C, int A, int B>
  FTBNN_TILE_OPERATION dot_u8i8() {
    __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
  template <int C, int A, int B>
  FTBNN_TILE_OPERATION dot_bf16() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
};

#endif

#undef FTBNN_TILE_OPERATION

}  // namespace

}  // namespace ftbnn
