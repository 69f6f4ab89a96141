#if defined(__x86_64__)

#include "bench/roof__amx.h"

#include <chrono>

#include "base/tiles.h"

namespace ftbnn {

namespace {

constexpr std::size_t TILE_SIZE = TILE_ROWS * TILE_BYTES;

// Four products a step, as in kernels/bconv_rows__amx.h; zeros are as good as any operands.
template <typename Products>
double steps_per_second(const Products& products) {
  constexpr int steps = 40000;
  static constexpr TileConfig config = full_tiles();
  alignas(64) static const std::uint8_t operands[4 * TILE_SIZE] = {};
  Tiles::configure(config);
  const auto start = std::chrono::steady_clock::now();
  for (int step = 0; step < steps; ++step) {
    Tiles::load<4>(operands, TILE_BYTES);
    Tiles::load<6>(operands + TILE_SIZE, TILE_BYTES);
    Tiles::load<5>(operands + 2 * TILE_SIZE, TILE_BYTES);
    Tiles::load<7>(operands + 3 * TILE_SIZE, TILE_BYTES);
    products();
  }
  alignas(64) std::uint8_t sums[TILE_SIZE];
  Tiles::store<3>(sums, TILE_BYTES);  // waits for the last product
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  Tiles::release();
  return steps / time.count();
}

}  // namespace

double amx_int8_roof_gmacs() {
  constexpr double macs = 4.0 * 16 * 16 * 64;
  return 1e-9 * macs * steps_per_second([] {
           Tiles::dot_i8<0, 4, 6>();
           Tiles::dot_i8<2, 5, 6>();
           Tiles::dot_i8<1, 4, 7>();
           Tiles::dot_i8<3, 5, 7>();
         });
}

}  // namespace ftbnn

#endif
