/* What operators have in common: maps and windows over them, what follows a sum, and where the results go. Real values
 * are [row][column][channel] floats, codes are streams of bits in the same order (ftbnn_bits.h).
 *
 * Products and sums of floats are rounded one by one, in the order written here: compile with -ffp-contract=off (or an
 * -std= of ISO C, which has GCC do so) and without -ffast-math. There is no libm, no allocation, no state. */
#ifndef FTBNN_TAIL_H
#define FTBNN_TAIL_H

#include <float.h>
#include <string.h>

#include "ftbnn_bits.h"

#if defined(__FAST_MATH__)
#error "-ffast-math would change the numbers"
#endif
#if FLT_EVAL_METHOD == 2
#error "floats must not be kept in wider registers: -msse2 -mfpmath=sse"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

struct ftbnn_map {
  int32_t height, width, channels;
};

struct ftbnn_window {
  int32_t kh, kw, sh, sw, ph, pw; /* kernel, stride, padding at the top and at the left */
};

/* The taps of one dimension that lie inside the map, [first, last); tap 0 is at `start`. */
struct ftbnn_taps {
  int32_t start, first, last;
};

static inline struct ftbnn_taps ftbnn_taps_at(int32_t out, int32_t stride, int32_t padding, int32_t kernel,
                                              int32_t size) {
  const int32_t start = out * stride - padding;
  const struct ftbnn_taps taps = {start, start < 0 ? -start : 0, start + kernel > size ? size - start : kernel};
  return taps;
}

/* Channels of a group: the last one takes the remainder too. */
static inline int32_t ftbnn_group_size(int32_t channels, int32_t groups, int32_t group) {
  const int32_t size = channels / groups;
  return group + 1 < groups ? size : channels - group * size;
}

/* Where numbers go, position by position, each with its channels: as they are (`real`), as codes, bit 1 where
 * y > threshold[c] (NULL: 0), or both. */
struct ftbnn_out {
  float* real;
  ftbnn_word* codes;
  const float* threshold;
};

struct ftbnn_out_writer {
  float* real;
  const float* threshold;
  struct ftbnn_writer codes;
};

static inline struct ftbnn_out_writer ftbnn_begin(const struct ftbnn_out* out) {
  const struct ftbnn_out_writer to = {out->real, out->threshold, {out->codes, 0, 0}};
  return to;
}

static inline void ftbnn_put(struct ftbnn_out_writer* to, int32_t c, float y) {
  if (to->real != NULL) *to->real++ = y;
  if (to->codes.at != NULL) ftbnn_put_bit(&to->codes, y > (to->threshold != NULL ? to->threshold[c] : 0.0f));
}

static inline void ftbnn_end(struct ftbnn_out_writer* to) {
  if (to->codes.at != NULL) ftbnn_end_bits(&to->codes);
}

/* y = act(pieces(scale[c] * acc + shift[c]) + shortcut) + after[c], of what is not NULL. */
enum {
  FTBNN_NONE,
  FTBNN_RELU,
  FTBNN_PRELU,
  FTBNN_FPRELU,
  FTBNN_CLAMP,
  FTBNN_HARDSWISH,
  FTBNN_HARDSIGMOID,
  FTBNN_SIGMOID,
  FTBNN_SILU,
  FTBNN_TANH
};

struct ftbnn_tail {
  const float *scale, *shift, *shortcut;
  int32_t act;
  const float *left, *right; /* slopes of PRELU and FPRELU */
  float low, high;           /* of CLAMP */
  const float* after;
  const float *first_left, *first_right; /* slopes of the pieces, both or none */
};

#if defined(FTBNN_CURVES) /* said by networks that have some */
/* e^x between 2^-126 and 2^127: a power of two, and a polynomial of what is left of the exponent. */
static inline float ftbnn_exp(float x) {
  x = x > -87.0f ? x : -87.0f;
  x = x < 87.0f ? x : 87.0f;
  const float turns = x * 1.44269504f;
  const int32_t power = (int32_t)(turns + (turns < 0 ? -0.5f : 0.5f));
  const float whole = (float)power;
  const float f = (x - whole * 0.693145752f) - whole * 1.42860677e-6f;
  const float series =
      1 + f * (1 + f * (0.5f + f * (0.166666667f + f * (0.0416666667f + f * (0.00833333333f + f * 0.00138888889f)))));
  const int32_t bits = (power + 127) * (1 << 23);
  float scale;
  memcpy(&scale, &bits, sizeof scale);
  return series * scale;
}

static inline float ftbnn_sigmoid(float y) { return 1 / (1 + ftbnn_exp(-y)); }

static inline float ftbnn_ramp(float y) { /* 0 to 6 */
  const float up = y + 3, above = up > 0 ? up : 0;
  return above < 6 ? above : 6;
}
#endif

/* Element `at` of the output, of channel c. */
static inline float ftbnn_finish(const struct ftbnn_tail* tail, int32_t at, int32_t c, float y) {
  if (tail->scale != NULL) y = tail->scale[c] * y;
  y = y + (tail->shift != NULL ? tail->shift[c] : 0.0f);
  if (tail->first_left != NULL) y *= y > 0 ? tail->first_right[c] : tail->first_left[c];
  if (tail->shortcut != NULL) y += tail->shortcut[at];
  switch (tail->act) {
    case FTBNN_RELU:
      y = y > 0 ? y : 0;
      break;
    case FTBNN_PRELU:
      y = y > 0 ? y : tail->left[c] * y;
      break;
    case FTBNN_FPRELU:
      y *= y > 0 ? tail->right[c] : tail->left[c];
      break;
    case FTBNN_CLAMP:
      y = y < tail->low ? tail->low : y > tail->high ? tail->high : y;
      break;
#if defined(FTBNN_CURVES)
    case FTBNN_HARDSWISH:
      y = y * ftbnn_ramp(y) / 6;
      break;
    case FTBNN_HARDSIGMOID:
      y = ftbnn_ramp(y) / 6;
      break;
    case FTBNN_SIGMOID:
      y = ftbnn_sigmoid(y);
      break;
    case FTBNN_SILU:
      y = y * ftbnn_sigmoid(y);
      break;
    case FTBNN_TANH:
      y = 2 * ftbnn_sigmoid(2 * y) - 1;
      break;
#endif
    default:
      break;
  }
  return tail->after != NULL ? y + tail->after[c] : y;
}

#endif
