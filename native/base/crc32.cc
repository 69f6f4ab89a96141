#include "base/crc32.h"

#include <array>
#include <cstring>

namespace ftbnn {

namespace {

constexpr std::size_t STEP = 16;  // bytes at a time: their tables are looked up side by side
using Tables = std::array<std::array<std::uint32_t, 256>, STEP>;

// Table k advances a byte that has k more behind it.
Tables make_tables() {
  Tables t{};
  for (std::uint32_t n = 0; n < 256; ++n) {
    std::uint32_t c = n;
    for (int k = 0; k < 8; ++k) c = c & 1U ? 0xEDB88320U ^ (c >> 1) : c >> 1;
    t[0][n] = c;
  }
  for (std::size_t k = 1; k < STEP; ++k) {
    for (std::size_t n = 0; n < 256; ++n) t[k][n] = (t[k - 1][n] >> 8) ^ t[0][t[k - 1][n] & 0xFFU];
  }
  return t;
}

}  // namespace

std::uint32_t crc32(const std::uint8_t* data, std::size_t size) {
  static const Tables t = make_tables();
  std::uint32_t crc = 0xFFFFFFFFU;
  for (; size >= STEP; size -= STEP, data += STEP) {
    std::uint32_t words[STEP / 4];
    std::memcpy(words, data, STEP);
    words[0] ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < STEP; ++k) crc ^= t[STEP - 1 - k][words[k / 4] >> 8 * (k % 4) & 0xFF];
  }
  for (; size > 0; --size, ++data) crc = (crc >> 8) ^ t[0][(crc ^ *data) & 0xFFU];
  return ~crc;
}

}  // namespace ftbnn
