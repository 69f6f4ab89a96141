// The tile registers of base/tiles.h in plain C++, to the bit: kernels are compiled for them too, so that tests run
// their very code anywhere. Throws std::logic_error where the instruction would fault.
#pragma once

#include "base/tiles.h"

namespace ftbnn {

namespace emulated_tiles {
void configure(const TileConfig& config);
void release();
void zero(int tile);
void load(int tile, const void* from, std::size_t stride);
void store(int tile, void* to, std::size_t stride);
void dot_i8(int c, int a, int b);
void dot_u8i8(int c, int a, int b);
void dot_bf16(int c, int a, int b);
}  // namespace emulated_tiles

namespace {

#define FTBNN_TILE_OPERATION [[gnu::always_inline]] static inline void

struct EmulatedTiles {
  FTBNN_TILE_OPERATION configure(const TileConfig& config) { emulated_tiles::configure(config); }
  FTBNN_TILE_OPERATION release() { emulated_tiles::release(); }
  template <int T>
  FTBNN_TILE_OPERATION zero() {
    emulated_tiles::zero(T);
  }
  template <int T>
  FTBNN_TILE_OPERATION load(const void* from, std::size_t stride) {
    emulated_tiles::load(T, from, stride);
  }
  template <int T>
  FTBNN_TILE_OPERATION store(void* to, std::size_t stride) {
    emulated_tiles::store(T, to, stride);
  }
  template <int C, int A, int B>
  FTBNN_TILE_OPERATION dot_i8() {
    emulated_tiles::dot_i8(C, A, B);
  }
  template <int C, int A, int B>
  FTBNN_TILE_OPERATION dot_u8i8() {
    emulated_tiles::dot_u8i8(C, A, B);
  }
  template <int C, int A, int B>
  FTBNN_TILE_OPERATION dot_bf16() {
    emulated_tiles::dot_bf16(C, A, B);
  }
};

#undef FTBNN_TILE_OPERATION

}  // namespace

}  // namespace ftbnn
