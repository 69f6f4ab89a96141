/* Codes as streams of bits: bit k is bit k % FTBNN_WORD_BITS of word k / FTBNN_WORD_BITS. Those of a value go position
 * by position, each with its channels. */
#ifndef FTBNN_BITS_H
#define FTBNN_BITS_H

#include <stddef.h>
#include <stdint.h>

/* The words that bits are counted in: 32 where pointers have 32 bits (Cortex-M), else 64. The results are the same. */
#ifndef FTBNN_WORD_BITS
#if UINTPTR_MAX > 0xffffffffu
#define FTBNN_WORD_BITS 64
#else
#define FTBNN_WORD_BITS 32
#endif
#endif

/* A stream as constants, 64 bits at a time; FTBNN_HALF are its last, if they are no more than 32. */
#if FTBNN_WORD_BITS == 64
typedef uint64_t ftbnn_word;
#define FTBNN_PAIR(low, high) (uint64_t)(high) << 32 | (low)
#elif FTBNN_WORD_BITS == 32
typedef uint32_t ftbnn_word;
#define FTBNN_PAIR(low, high) low, high
#else
#error "FTBNN_WORD_BITS is 32 or 64"
#endif
#define FTBNN_HALF(low) low

#define FTBNN_WORDS(bits) (((bits) + FTBNN_WORD_BITS - 1) / FTBNN_WORD_BITS)

/* Bits first ... first + count - 1, of which there are at least 1 and at most FTBNN_WORD_BITS. */
static inline ftbnn_word ftbnn_bits_at(const ftbnn_word* from, int32_t first, int32_t count) {
  const ftbnn_word* at = from + first / FTBNN_WORD_BITS;
  const int32_t shift = first % FTBNN_WORD_BITS;
  ftbnn_word bits = at[0] >> shift;
  if (shift + count > FTBNN_WORD_BITS) bits |= at[1] << (FTBNN_WORD_BITS - shift);
  return count < FTBNN_WORD_BITS ? bits & (((ftbnn_word)1 << count) - 1) : bits;
}

static inline int32_t ftbnn_room(int32_t at, int32_t count) {
  const int32_t room = FTBNN_WORD_BITS - at % FTBNN_WORD_BITS;
  return count < room ? count : room;
}

/* Into bits that are 0 until now. */
static inline void ftbnn_copy_bits(ftbnn_word* to, int32_t at, const ftbnn_word* from, int32_t first, int32_t count) {
  for (int32_t part; count > 0; at += part, first += part, count -= part) {
    part = ftbnn_room(at, count);
    to[at / FTBNN_WORD_BITS] |= ftbnn_bits_at(from, first, part) << (at % FTBNN_WORD_BITS);
  }
}

static inline void ftbnn_set_bits(ftbnn_word* to, int32_t at, int32_t count) {
  for (int32_t part; count > 0; at += part, count -= part) {
    part = ftbnn_room(at, count);
    to[at / FTBNN_WORD_BITS] |= (~(ftbnn_word)0 >> (FTBNN_WORD_BITS - part)) << (at % FTBNN_WORD_BITS);
  }
}

/* Writes a stream from its beginning on; behind the last bit its word is filled with 0. */
struct ftbnn_writer {
  ftbnn_word *at, held;
  int32_t count;
};

static inline struct ftbnn_writer ftbnn_begin_bits(ftbnn_word* at) {
  const struct ftbnn_writer to = {at, 0, 0};
  return to;
}

static inline void ftbnn_put_bit(struct ftbnn_writer* to, int bit) {
  to->held |= (ftbnn_word)(bit != 0) << to->count;
  if (++to->count == FTBNN_WORD_BITS) {
    *to->at++ = to->held;
    to->held = 0;
    to->count = 0;
  }
}

static inline void ftbnn_end_bits(struct ftbnn_writer* to) {
  if (to->count > 0) *to->at = to->held;
}

/* Counting ones: each byte of a word counts its own bits. */
#define FTBNN_BYTES(value) (~(ftbnn_word)0 / 255 * (value))
#define FTBNN_SHORTS(value) (~(ftbnn_word)0 / 65535 * (value))
#define FTBNN_BLOCK 31 /* words whose counts fit into bytes: 31 x 8 < 256 */

static inline ftbnn_word ftbnn_count_bytes(ftbnn_word bits) {
  bits -= bits >> 1 & FTBNN_BYTES(0x55);
  bits = (bits & FTBNN_BYTES(0x33)) + (bits >> 2 & FTBNN_BYTES(0x33));
  return (bits + (bits >> 4)) & FTBNN_BYTES(0x0f);
}

static inline int32_t ftbnn_add_bytes(ftbnn_word bytes) {
  bytes = (bytes & FTBNN_SHORTS(0xff)) + (bytes >> 8 & FTBNN_SHORTS(0xff));
  return (int32_t)((ftbnn_word)(bytes * FTBNN_SHORTS(1)) >> (FTBNN_WORD_BITS - 16));
}

/* The ones of a ^ b, of (a ^ b) & mask, and of a & b. */
static inline int32_t ftbnn_differing(const ftbnn_word* a, const ftbnn_word* b, int32_t words) {
  int32_t ones = 0, k = 0;
  while (k < words) {
    const int32_t end = k + FTBNN_BLOCK < words ? k + FTBNN_BLOCK : words;
    ftbnn_word bytes = 0;
    for (; k < end; ++k) bytes += ftbnn_count_bytes(a[k] ^ b[k]);
    ones += ftbnn_add_bytes(bytes);
  }
  return ones;
}

static inline int32_t ftbnn_differing_in(const ftbnn_word* a, const ftbnn_word* b, const ftbnn_word* mask,
                                         int32_t words) {
  int32_t ones = 0;
  for (int32_t k = 0; k < words; ++k) ones += ftbnn_add_bytes(ftbnn_count_bytes((a[k] ^ b[k]) & mask[k]));
  return ones;
}

static inline int32_t ftbnn_common(const ftbnn_word* a, const ftbnn_word* b, int32_t words) {
  int32_t ones = 0, k = 0;
  while (k < words) {
    const int32_t end = k + FTBNN_BLOCK < words ? k + FTBNN_BLOCK : words;
    ftbnn_word bytes = 0;
    for (; k < end; ++k) bytes += ftbnn_count_bytes(a[k] & b[k]);
    ones += ftbnn_add_bytes(bytes);
  }
  return ones;
}

#endif
