/* The convolution that reads an 8-bit image, in whole numbers: no pixel becomes a float.
 *
 * With pixels scaled and shifted, (s x + t), a convolution is the sum of (w s) x and, over the taps inside the image,
 * of w t. The first is whole numbers times a unit, one sum for each channel of the image, for channels are scaled
 * differently; the second is a constant for each class of border. */
#ifndef FTBNN_STEM_H
#define FTBNN_STEM_H

#include "ftbnn_tail.h"

struct ftbnn_stem {
  struct ftbnn_map from, to;
  struct ftbnn_window window;
  const int8_t* weights_8; /* [out][kh][kw][in], of one width or the other */
  const int16_t* weights_16;
  const uint8_t* order;           /* channels of the image as they are added up, */
  const float* ratio;             /* and what each one's sum is multiplied with: the first is 1; NULL: all are */
  const uint16_t *rows, *columns; /* of each output row and column a number; both together are the class of border */
};

static inline int32_t ftbnn_stem_sum(const struct ftbnn_stem* op, const uint8_t* image, struct ftbnn_taps rows,
                                     struct ftbnn_taps columns, int32_t out, int32_t channel) {
  const struct ftbnn_window* w = &op->window;
  int32_t sum = 0;
  for (int32_t ky = rows.first; ky < rows.last; ++ky) {
    const uint8_t* row = image + ((rows.start + ky) * op->from.width + columns.start) * op->from.channels + channel;
    for (int32_t kx = columns.first; kx < columns.last; ++kx) {
      const int32_t at = ((out * w->kh + ky) * w->kw + kx) * op->from.channels + channel;
      sum += row[kx * op->from.channels] * (op->weights_8 != NULL ? op->weights_8[at] : op->weights_16[at]);
    }
  }
  return sum;
}

/* `offsets` are [class][out], and take the place of the tail's shift. */
static inline void ftbnn_stem(const struct ftbnn_stem* op, const uint8_t* image, const float* offsets,
                              const struct ftbnn_tail* tail, const struct ftbnn_out* out) {
  const struct ftbnn_window* w = &op->window;
  struct ftbnn_out_writer to = ftbnn_begin(out);
  struct ftbnn_tail here = *tail;
  int32_t at = 0;
  for (int32_t y = 0; y < op->to.height; ++y) {
    const struct ftbnn_taps rows = ftbnn_taps_at(y, w->sh, w->ph, w->kh, op->from.height);
    for (int32_t x = 0; x < op->to.width; ++x) {
      const struct ftbnn_taps columns = ftbnn_taps_at(x, w->sw, w->pw, w->kw, op->from.width);
      here.shift = offsets + (op->rows[y] + op->columns[x]) * op->to.channels;
      for (int32_t c = 0; c < op->to.channels; ++c, ++at) {
        float acc = (float)ftbnn_stem_sum(op, image, rows, columns, c, op->order[0]);
        for (int32_t k = 1; k < op->from.channels; ++k) {
          const float sum = (float)ftbnn_stem_sum(op, image, rows, columns, c, op->order[k]);
          acc = (op->ratio != NULL ? op->ratio[k] * sum : sum) + acc;
        }
        ftbnn_put(&to, c, ftbnn_finish(&here, at, c, acc));
      }
    }
  }
  ftbnn_end(&to);
}

/* Where only codes are read, and channels are scaled alike: sums are compared with whole numbers, [class][out]. */
static inline void ftbnn_stem_codes(const struct ftbnn_stem* op, const uint8_t* image, const int32_t* low,
                                    const int32_t* high, ftbnn_word* codes) {
  const struct ftbnn_window* w = &op->window;
  struct ftbnn_writer to = ftbnn_begin_bits(codes);
  for (int32_t y = 0; y < op->to.height; ++y) {
    const struct ftbnn_taps rows = ftbnn_taps_at(y, w->sh, w->ph, w->kh, op->from.height);
    for (int32_t x = 0; x < op->to.width; ++x) {
      const struct ftbnn_taps columns = ftbnn_taps_at(x, w->sw, w->pw, w->kw, op->from.width);
      const int32_t first = (op->rows[y] + op->columns[x]) * op->to.channels;
      for (int32_t c = 0; c < op->to.channels; ++c) {
        int32_t sum = 0;
        for (int32_t k = 0; k < op->from.channels; ++k) sum += ftbnn_stem_sum(op, image, rows, columns, c, k);
        ftbnn_put_bit(&to, low[first + c] <= sum && sum <= high[first + c]);
      }
    }
  }
  ftbnn_end_bits(&to);
}

#endif
