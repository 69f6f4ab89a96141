#include "base/crc32.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

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

#if defined(__x86_64__)

// The polynomial of 128 bits with so many bits behind it becomes one of as many bits less: products by x^(n + 32) and
// x^(n - 32) modulo the checksum's polynomial, bits in reverse (Gopal et al., Intel, 2009).
__attribute__((target("pclmul,sse4.1"))) inline __m128i fold(__m128i value, __m128i powers, __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(value, powers, 0x00), high = _mm_clmulepi64_si128(value, powers, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// Asked of the CPU itself: __builtin_cpu_supports needs a table of the compiler's runtime, which some of them do not
// have in a form that a shared library can link.
bool can_fold() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_PCLMUL) != 0 && (ecx & bit_SSE4_1) != 0;
}

constexpr std::size_t FOLD = 64;  // bytes at a time

// What all full steps of `size` bytes, at least one, come to: 16 bytes with the same checksum, of one that starts at 0.
__attribute__((target("pclmul,sse4.1"))) void fold_all(std::uint32_t crc, const std::uint8_t* data, std::size_t size,
                                                       std::uint8_t* to) {
  const __m128i by_512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4), by_128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
  const auto load = [](const std::uint8_t* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); };
  __m128i x[4] = {load(data), load(data + 16), load(data + 32), load(data + 48)};
  x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128(static_cast<int>(crc)));
  for (std::size_t at = FOLD; at + FOLD <= size; at += FOLD) {
    for (std::size_t k = 0; k < 4; ++k) x[k] = fold(x[k], by_512, load(data + at + 16 * k));
  }
  for (std::size_t k = 1; k < 4; ++k) x[0] = fold(x[0], by_128, x[k]);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), x[0]);
}

#endif

// By tables.
std::uint32_t advance(std::uint32_t crc, const std::uint8_t* data, std::size_t size) {
  static const Tables t = make_tables();
  for (; size >= STEP; size -= STEP, data += STEP) {
    std::uint32_t words[STEP / 4];
    std::memcpy(words, data, STEP);
    words[0] ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < STEP; ++k) crc ^= t[STEP - 1 - k][words[k / 4] >> 8 * (k % 4) & 0xFF];
  }
  for (; size > 0; --size, ++data) crc = (crc >> 8) ^ t[0][(crc ^ *data) & 0xFFU];
  return crc;
}

}  // namespace

std::uint32_t crc32(const std::uint8_t* data, std::size_t size) {
  std::uint32_t crc = 0xFFFFFFFFU;
#if defined(__x86_64__)
  static const bool folds = can_fold();
  if (size >= FOLD && folds) {
    std::uint8_t folded[16];
    fold_all(crc, data, size, folded);
    crc = advance(0, folded, sizeof folded);
    data += size / FOLD * FOLD;
    size %= FOLD;
  }
#endif
  return ~advance(crc, data, size);
}

}  // namespace ftbnn
