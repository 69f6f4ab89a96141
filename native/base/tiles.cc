#include "base/tiles.h"

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ftbnn {

#if defined(__x86_64__)

namespace {

constexpr int M = 7, N = 5, K = 12;  // three different sizes show operands that change places

float bf16_at(const std::uint8_t* from) {
  const std::uint32_t word = static_cast<std::uint32_t>(from[0] | from[1] << 8) << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

// Element (m, n) of a product, by the definition.
std::uint32_t expected(TileDot dot, const std::uint8_t* a, const std::uint8_t* b, int m, int n) {
  const std::uint8_t* row = a + m * 4 * K;
  std::int32_t whole = 0;
  float sum = 0;
  for (int k = 0; k < K; ++k) {
    const std::uint8_t *left = row + 4 * k, *right = b + (k * N + n) * 4;
    for (int j = 0; j < 4; ++j) {
      const int unsigned_left = left[j], signed_left = static_cast<std::int8_t>(left[j]);
      whole += (dot == TileDot::u8i8 ? unsigned_left : signed_left) * static_cast<std::int8_t>(right[j]);
    }
    for (int j = 0; j < 4; j += 2) sum += bf16_at(left + j) * bf16_at(right + j);
  }
  std::uint32_t bits;
  std::memcpy(&bits, dot == TileDot::bf16 ? static_cast<void*>(&sum) : static_cast<void*>(&whole), sizeof bits);
  return bits;
}

}  // namespace

bool tiles_multiply(TileDot dot) {
  std::uint8_t a[M * 4 * K], b[K * 4 * N], got[M * 4 * N] = {};
  std::uint32_t seed = 1;
  const auto fill = [&](std::uint8_t* bytes, std::size_t size) {
    for (std::size_t at = 0; at < size; ++at) {
      seed = seed * 1664525U + 1013904223U;
      bytes[at] = static_cast<std::uint8_t>(seed >> 24);
      // 2 to 4 in steps of a quarter: every sum is exact.
      if (dot == TileDot::bf16) bytes[at] = at % 2 == 0 ? bytes[at] & 0x70 : 0x40;
    }
  };
  fill(a, sizeof a);
  fill(b, sizeof b);
  tile_product<Tiles>(dot, M, N, K, a, b, got);
  bool same = true;
  for (int m = 0; m < M; ++m) {
    for (int n = 0; n < N; ++n) {
      std::uint32_t found;
      std::memcpy(&found, got + (m * N + n) * 4, sizeof found);
      same &= found == expected(dot, a, b, m, n);
    }
  }
  return same;
}

bool hides_tile_palette() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx >> 24 & 1U) == 0) return false;
  return __get_cpuid_count(0x1d, 0, &eax, &ebx, &ecx, &edx) == 0 || eax == 0;
}

#else

bool tiles_multiply(TileDot) { return false; }

bool hides_tile_palette() { return false; }

#endif

}  // namespace ftbnn
