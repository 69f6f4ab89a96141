/* Convolutions, binary and real. */
#ifndef FTBNN_CONVOLUTIONS_H
#define FTBNN_CONVOLUTIONS_H

#include "ftbnn_tail.h"

/* Binary convolution: weights are {-1, +1} by their bits, codes too or {0, 1} (zero_one); a padded tap counts 0. */
struct ftbnn_bconv {
  const ftbnn_word* in;
  struct ftbnn_map from, to;
  struct ftbnn_window window;
  int32_t groups, zero_one;
  const ftbnn_word* weights;  /* of each output channel a stream, tap by tap the channels of its group */
  ftbnn_word *under, *inside; /* room for the bits under a window, and for which of them lie inside the map */
};

/* The sum of output channel after output channel: what is under a window is gathered once for all of a group. */
struct ftbnn_sums {
  const ftbnn_word* weights;
  int32_t bits, words, taken; /* bits: of a whole window; taken: of the part inside, for {0, 1} its ones */
};

static inline struct ftbnn_sums ftbnn_gather(const struct ftbnn_bconv* op, int32_t y, int32_t x, int32_t group,
                                             const ftbnn_word* weights) {
  const struct ftbnn_window* w = &op->window;
  const struct ftbnn_taps rows = ftbnn_taps_at(y, w->sh, w->ph, w->kh, op->from.height);
  const struct ftbnn_taps columns = ftbnn_taps_at(x, w->sw, w->pw, w->kw, op->from.width);
  const int32_t channels = op->from.channels, size = ftbnn_group_size(channels, op->groups, group);
  const int32_t wide = columns.last - columns.first, bits = w->kh * w->kw * size;
  struct ftbnn_sums sums = {weights, bits, FTBNN_WORDS(bits), (rows.last - rows.first) * wide * size};
  for (int32_t k = 0; k < sums.words; ++k) op->under[k] = op->inside[k] = 0;
  for (int32_t ky = rows.first; ky < rows.last; ++ky) {
    const int32_t tap = ky * w->kw + columns.first;
    const int32_t position = (rows.start + ky) * op->from.width + columns.start + columns.first;
    if (op->groups == 1) { /* the taps of a row lie side by side */
      ftbnn_copy_bits(op->under, tap * size, op->in, position * size, wide * size);
    } else {
      const int32_t first = position * channels + group * (channels / op->groups);
      for (int32_t k = 0; k < wide; ++k) {
        ftbnn_copy_bits(op->under, (tap + k) * size, op->in, first + k * channels, size);
      }
    }
    if (sums.taken < bits) ftbnn_set_bits(op->inside, tap * size, wide * size);
  }
  if (op->zero_one) sums.taken = ftbnn_common(op->under, op->under, sums.words);
  return sums;
}

static inline int32_t ftbnn_next_sum(const struct ftbnn_bconv* op, struct ftbnn_sums* sums) {
  const ftbnn_word* weights = sums->weights;
  sums->weights += sums->words;
  if (op->zero_one) return 2 * ftbnn_common(op->under, weights, sums->words) - sums->taken;
  return sums->taken - 2 * (sums->taken == sums->bits
                                ? ftbnn_differing(op->under, weights, sums->words)
                                : ftbnn_differing_in(op->under, weights, op->inside, sums->words));
}

static inline void ftbnn_bconv(const struct ftbnn_bconv* op, const struct ftbnn_tail* tail,
                               const struct ftbnn_out* out) {
  struct ftbnn_out_writer to = ftbnn_begin(out);
  int32_t at = 0;
  for (int32_t y = 0; y < op->to.height; ++y) {
    for (int32_t x = 0; x < op->to.width; ++x) {
      const ftbnn_word* weights = op->weights;
      for (int32_t g = 0, c = 0; g < op->groups; ++g) {
        struct ftbnn_sums sums = ftbnn_gather(op, y, x, g, weights);
        for (int32_t o = ftbnn_group_size(op->to.channels, op->groups, g); o > 0; --o, ++c, ++at) {
          ftbnn_put(&to, c, ftbnn_finish(tail, at, c, (float)ftbnn_next_sum(op, &sums)));
        }
        weights = sums.weights;
      }
    }
  }
  ftbnn_end(&to);
}

/* A binary convolution of whose outputs only codes are read: sums are compared with whole numbers. A code is 1 where
 * low[c] <= sum <= high[c]. */
static inline void ftbnn_bconv_codes(const struct ftbnn_bconv* op, const int32_t* low, const int32_t* high,
                                     ftbnn_word* codes) {
  struct ftbnn_writer to = ftbnn_begin_bits(codes);
  for (int32_t y = 0; y < op->to.height; ++y) {
    for (int32_t x = 0; x < op->to.width; ++x) {
      const ftbnn_word* weights = op->weights;
      for (int32_t g = 0, c = 0; g < op->groups; ++g) {
        struct ftbnn_sums sums = ftbnn_gather(op, y, x, g, weights);
        for (int32_t o = ftbnn_group_size(op->to.channels, op->groups, g); o > 0; --o, ++c) {
          const int32_t sum = ftbnn_next_sum(op, &sums);
          ftbnn_put_bit(&to, low[c] <= sum && sum <= high[c]);
        }
        weights = sums.weights;
      }
    }
  }
  ftbnn_end_bits(&to);
}

/* Real convolution; a matrix is one of a single position. */
struct ftbnn_conv {
  const float* in;
  struct ftbnn_map from, to;
  struct ftbnn_window window;
  int32_t groups;
  const float* weights; /* [out][kh][kw][in of the group]; or whole numbers, times the unit of their output channel */
  const int8_t* weights_8;
  const int16_t* weights_16;
  const float* unit;
};

static inline float ftbnn_weight(const struct ftbnn_conv* op, int32_t at, int32_t out) {
  if (op->weights != NULL) return op->weights[at];
  return (float)(op->weights_8 != NULL ? op->weights_8[at] : op->weights_16[at]) * op->unit[out];
}

static inline void ftbnn_conv(const struct ftbnn_conv* op, const struct ftbnn_tail* tail, const struct ftbnn_out* out) {
  const struct ftbnn_window* w = &op->window;
  struct ftbnn_out_writer to = ftbnn_begin(out);
  int32_t at = 0;
  for (int32_t y = 0; y < op->to.height; ++y) {
    const struct ftbnn_taps rows = ftbnn_taps_at(y, w->sh, w->ph, w->kh, op->from.height);
    for (int32_t x = 0; x < op->to.width; ++x) {
      const struct ftbnn_taps columns = ftbnn_taps_at(x, w->sw, w->pw, w->kw, op->from.width);
      int32_t weights = 0;
      for (int32_t g = 0, c = 0; g < op->groups; ++g) {
        const int32_t size = ftbnn_group_size(op->from.channels, op->groups, g);
        const int32_t first = g * (op->from.channels / op->groups);
        for (int32_t o = ftbnn_group_size(op->to.channels, op->groups, g); o > 0; --o, ++c, ++at) {
          float acc = 0;
          for (int32_t ky = rows.first; ky < rows.last; ++ky) {
            for (int32_t kx = columns.first; kx < columns.last; ++kx) {
              const int32_t position = (rows.start + ky) * op->from.width + columns.start + kx;
              const float* in = op->in + position * op->from.channels + first;
              const int32_t weight = weights + (ky * w->kw + kx) * size;
              for (int32_t k = 0; k < size; ++k) acc += in[k] * ftbnn_weight(op, weight + k, c);
            }
          }
          weights += w->kh * w->kw * size;
          ftbnn_put(&to, c, ftbnn_finish(tail, at, c, acc));
        }
      }
    }
  }
  ftbnn_end(&to);
}

#endif
