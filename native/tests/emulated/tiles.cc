#include "tests/emulated/tiles.h"

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

namespace ftbnn {

namespace emulated_tiles {

namespace {

struct Tile {
  int rows = 0, bytes = 0;
  alignas(64) std::uint8_t data[TILE_ROWS][TILE_BYTES] = {};
};

struct State {
  bool is_configured = false;
  Tile tiles[8];
};

thread_local State state;

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(std::string("tiles: ") + what);
}

Tile& tile_of(int tile) {
  require(state.is_configured, "used before they are configured");
  require(tile >= 0 && tile < 8, "there are eight");
  require(state.tiles[tile].rows > 0, "this one has no shape");
  return state.tiles[tile];
}

// The three operands of a product, with the checks of the instruction.
struct Operands {
  Operands(int c, int a, int b) : c(tile_of(c)), a(tile_of(a)), b(tile_of(b)) {
    require(c != a && c != b && a != b, "the operands of a product are the same tile");
    require(this->a.bytes % 4 == 0 && this->b.bytes % 4 == 0 && this->c.bytes % 4 == 0, "rows of a product are dwords");
    require(this->c.rows == this->a.rows && this->c.bytes == this->b.bytes && this->a.bytes / 4 == this->b.rows,
            "the shapes of a product do not fit");
  }
  Tile& c;
  const Tile &a, &b;
};

template <typename A>
void dot_bytes(int c, int a, int b) {
  const Operands use(c, a, b);
  for (int m = 0; m < use.c.rows; ++m) {
    std::uint32_t sums[TILE_BYTES / 4];
    std::memcpy(sums, use.c.data[m], sizeof sums);
    for (int k = 0; k < use.a.bytes / 4; ++k) {
      A left[4];
      std::int8_t right[TILE_BYTES];
      std::memcpy(left, use.a.data[m] + 4 * k, sizeof left);
      std::memcpy(right, use.b.data[k], sizeof right);
      for (int n = 0; n < use.c.bytes / 4; ++n) {
        int sum = 0;
        for (int j = 0; j < 4; ++j) sum += left[j] * right[4 * n + j];
        sums[n] += static_cast<std::uint32_t>(sum);
      }
    }
    std::memcpy(use.c.data[m], sums, sizeof sums);
  }
}

float flush(float value) { return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value; }

float bf16_at(const std::uint8_t* from) {
  std::uint16_t half;
  std::memcpy(&half, from, sizeof half);
  const std::uint32_t word = static_cast<std::uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return flush(value);
}

// acc + a * b rounded once. Products of bf16 are exact in float but at the edges of its range.
float fused(float a, float b, float acc) {
  constexpr float safe = 0x1p-60F;
  const bool is_exact =
      std::fabs(a) > safe && std::fabs(b) > safe && std::fabs(a) < 1 / safe && std::fabs(b) < 1 / safe;
  return flush(is_exact ? acc + a * b : std::fma(a, b, acc));
}

}  // namespace

void configure(const TileConfig& config) {
  require(config.palette == 1 && config.start_row == 0, "palette 1 from row 0 is all that is used");
  for (const std::uint8_t byte : config.reserved) require(byte == 0, "reserved bytes must be 0");
  for (int tile = 0; tile < 16; ++tile) {
    const int rows = config.rows[tile], bytes = config.row_bytes[tile];
    require(rows <= TILE_ROWS && bytes <= TILE_BYTES && (rows == 0) == (bytes == 0), "a shape that tiles cannot have");
    require(tile < 8 || rows == 0, "there are eight");
  }
  state = State();
  state.is_configured = true;
  for (int tile = 0; tile < 8; ++tile) {
    state.tiles[tile].rows = config.rows[tile];
    state.tiles[tile].bytes = config.row_bytes[tile];
  }
}

void release() { state = State(); }

void zero(int tile) { std::memset(tile_of(tile).data, 0, sizeof(Tile::data)); }

void load(int tile, const void* from, std::size_t stride) {
  Tile& to = tile_of(tile);
  for (int row = 0; row < to.rows; ++row) {
    std::memcpy(to.data[row], static_cast<const std::uint8_t*>(from) + static_cast<std::size_t>(row) * stride,
                static_cast<std::size_t>(to.bytes));
  }
}

void store(int tile, void* to, std::size_t stride) {
  const Tile& from = tile_of(tile);
  for (int row = 0; row < from.rows; ++row) {
    std::memcpy(static_cast<std::uint8_t*>(to) + static_cast<std::size_t>(row) * stride, from.data[row],
                static_cast<std::size_t>(from.bytes));
  }
}

void dot_i8(int c, int a, int b) { dot_bytes<std::int8_t>(c, a, b); }
void dot_u8i8(int c, int a, int b) { dot_bytes<std::uint8_t>(c, a, b); }

void dot_bf16(int c, int a, int b) {
  const Operands use(c, a, b);
  for (int m = 0; m < use.c.rows; ++m) {
    float sums[2][TILE_BYTES / 4] = {};
    for (int k = 0; k < use.a.bytes / 4; ++k) {
      for (int j = 0; j < 2; ++j) {
        const float left = bf16_at(use.a.data[m] + 4 * k + 2 * j);
        for (int n = 0; n < use.c.bytes / 4; ++n) {
          sums[j][n] = fused(left, bf16_at(use.b.data[k] + 4 * n + 2 * j), sums[j][n]);
        }
      }
    }
    float totals[TILE_BYTES / 4];
    std::memcpy(totals, use.c.data[m], sizeof totals);
    for (int n = 0; n < use.c.bytes / 4; ++n) totals[n] = flush(flush(totals[n]) + flush(sums[0][n] + sums[1][n]));
    std::memcpy(use.c.data[m], totals, sizeof totals);
  }
}

}  // namespace emulated_tiles

}  // namespace ftbnn
