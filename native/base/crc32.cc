#include "base/crc32.h"

#include <array>
#include <cstring>

namespace ftbnn {

namespace {

constexpr std::uint32_t POLYNOMIAL = 0xEDB88320U;
constexpr std::size_t STREAMS = 4;  // each waits for its tables eight bytes at a time, so four at once are no slower
constexpr std::size_t WORTH_STREAMS = 4096;

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// Table k advances a byte that has k more behind it.
Tables make_tables() {
  Tables t{};
  for (std::uint32_t n = 0; n < 256; ++n) {
    std::uint32_t c = n;
    for (int k = 0; k < 8; ++k) c = c & 1U ? POLYNOMIAL ^ (c >> 1) : c >> 1;
    t[0][n] = c;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t n = 0; n < 256; ++n) t[k][n] = (t[k - 1][n] >> 8) ^ t[0][t[k - 1][n] & 0xFFU];
  }
  return t;
}

std::uint32_t step(const Tables& t, std::uint32_t crc, const std::uint8_t* data) {
  std::uint32_t low = 0, high = 0;
  std::memcpy(&low, data, 4);
  std::memcpy(&high, data + 4, 4);
  low ^= crc;
  return t[7][low & 0xFF] ^ t[6][(low >> 8) & 0xFF] ^ t[5][(low >> 16) & 0xFF] ^ t[4][low >> 24] ^ t[3][high & 0xFF] ^
         t[2][(high >> 8) & 0xFF] ^ t[1][(high >> 16) & 0xFF] ^ t[0][high >> 24];
}

// Polynomials over GF(2) modulo the CRC's, x^0 in the highest bit.
std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = 1U << 31; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = b & 1U ? POLYNOMIAL ^ (b >> 1) : b >> 1;
  }
  return product;
}

// x^(8 * bytes)
std::uint32_t power(std::size_t bytes) {
  std::uint32_t result = 1U << 31, square = 1U << 23;
  for (; bytes != 0; bytes >>= 1, square = multiply(square, square)) {
    if (bytes & 1U) result = multiply(result, square);
  }
  return result;
}

}  // namespace

std::uint32_t crc32(const std::uint8_t* data, std::size_t size) {
  static const Tables tables = make_tables();
  std::uint32_t crc = 0xFFFFFFFFU;
  if (size >= WORTH_STREAMS) {
    const std::size_t part = size / STREAMS / 8 * 8;
    std::uint32_t stream[STREAMS] = {crc};
    for (std::size_t at = 0; at < part; at += 8) {
      for (std::size_t s = 0; s < STREAMS; ++s) stream[s] = step(tables, stream[s], data + s * part + at);
    }
    const std::uint32_t over = power(part);  // a stream's remainder, carried over the bytes of the next
    crc = stream[0];
    for (std::size_t s = 1; s < STREAMS; ++s) crc = multiply(crc, over) ^ stream[s];
    data += STREAMS * part;
    size -= STREAMS * part;
  }
  for (; size >= 8; size -= 8, data += 8) crc = step(tables, crc, data);
  for (; size > 0; --size, ++data) crc = (crc >> 8) ^ tables[0][(crc ^ *data) & 0xFFU];
  return ~crc;
}

}  // namespace ftbnn
