/* What happens between convolutions, and how an image comes in. */
#ifndef FTBNN_BETWEEN_H
#define FTBNN_BETWEEN_H

#include <math.h> /* INFINITY; no function */

#include "ftbnn_tail.h"

/* A tail alone. */
static inline void ftbnn_pointwise(const float* in, struct ftbnn_map map, const struct ftbnn_tail* tail,
                                   const struct ftbnn_out* out) {
  struct ftbnn_out_writer to = ftbnn_begin(out);
  int32_t at = 0;
  for (int32_t p = map.height * map.width; p > 0; --p) {
    for (int32_t c = 0; c < map.channels; ++c, ++at) ftbnn_put(&to, c, ftbnn_finish(tail, at, c, in[at]));
  }
  ftbnn_end(&to);
}

/* How many of its thresholds, which rise, a number is greater than; they are of its channel (by_channel) or of all. */
static inline void ftbnn_steps(const float* in, struct ftbnn_map map, const float* thresholds, int32_t count,
                               int32_t by_channel, const struct ftbnn_out* out) {
  struct ftbnn_out_writer to = ftbnn_begin(out);
  for (int32_t p = map.height * map.width; p > 0; --p) {
    for (int32_t c = 0; c < map.channels; ++c, ++in) {
      const float* own = by_channel ? thresholds + c * count : thresholds;
      int32_t first = 0, last = count;
      while (first < last) {
        const int32_t middle = (first + last) / 2;
        if (own[middle] < *in) {
          first = middle + 1;
        } else {
          last = middle;
        }
      }
      ftbnn_put(&to, c, (float)first);
    }
  }
  ftbnn_end(&to);
}

/* The product or sum of two values; the second may have one channel or one position for all. */
static inline void ftbnn_combine(const float* first, const float* second, struct ftbnn_map map, struct ftbnn_map of,
                                 int32_t is_sum, const struct ftbnn_out* out) {
  const int32_t positions = map.height * map.width, step = of.height * of.width == 1 ? 0 : of.channels;
  struct ftbnn_out_writer to = ftbnn_begin(out);
  for (int32_t p = 0; p < positions; ++p) {
    for (int32_t c = 0; c < map.channels; ++c, ++first) {
      const float other = second[p * step + (of.channels == 1 ? 0 : c)];
      ftbnn_put(&to, c, is_sum ? *first + other : *first * other);
    }
  }
  ftbnn_end(&to);
}

/* Every channel of a position times the factor of the position. */
static inline void ftbnn_map_factors(const float* in, struct ftbnn_map map, const float* factors,
                                     const struct ftbnn_out* out) {
  struct ftbnn_out_writer to = ftbnn_begin(out);
  for (int32_t p = map.height * map.width; p > 0; --p, ++factors) {
    for (int32_t c = 0; c < map.channels; ++c) ftbnn_put(&to, c, *factors * *in++);
  }
  ftbnn_end(&to);
}

/* The largest of a window, or its average: divided by `divisor`, or where that is 0 by the number of taps inside. */
struct ftbnn_pool {
  const float* in;
  struct ftbnn_map from, to;
  struct ftbnn_window window;
  float divisor;
};

static inline void ftbnn_max_pool(const struct ftbnn_pool* op, const struct ftbnn_out* out) {
  const struct ftbnn_window* w = &op->window;
  struct ftbnn_out_writer to = ftbnn_begin(out);
  for (int32_t y = 0; y < op->to.height; ++y) {
    const struct ftbnn_taps rows = ftbnn_taps_at(y, w->sh, w->ph, w->kh, op->from.height);
    for (int32_t x = 0; x < op->to.width; ++x) {
      const struct ftbnn_taps columns = ftbnn_taps_at(x, w->sw, w->pw, w->kw, op->from.width);
      for (int32_t c = 0; c < op->to.channels; ++c) {
        float best = -INFINITY;
        for (int32_t ky = rows.first; ky < rows.last; ++ky) {
          for (int32_t kx = columns.first; kx < columns.last; ++kx) {
            const int32_t position = (rows.start + ky) * op->from.width + columns.start + kx;
            const float value = op->in[position * op->from.channels + c];
            if (value > best) best = value;
          }
        }
        ftbnn_put(&to, c, best);
      }
    }
  }
  ftbnn_end(&to);
}

static inline float ftbnn_average(const struct ftbnn_pool* op, struct ftbnn_taps rows, struct ftbnn_taps columns,
                                  int32_t c) {
  float sum = 0;
  for (int32_t ky = rows.first; ky < rows.last; ++ky) {
    for (int32_t kx = columns.first; kx < columns.last; ++kx) {
      const int32_t position = (rows.start + ky) * op->from.width + columns.start + kx;
      sum += op->in[position * op->from.channels + c];
    }
  }
  return sum / (op->divisor != 0 ? op->divisor : (float)((rows.last - rows.first) * (columns.last - columns.first)));
}

static inline void ftbnn_average_pool(const struct ftbnn_pool* op, const struct ftbnn_out* out) {
  const struct ftbnn_window* w = &op->window;
  struct ftbnn_out_writer to = ftbnn_begin(out);
  for (int32_t y = 0; y < op->to.height; ++y) {
    const struct ftbnn_taps rows = ftbnn_taps_at(y, w->sh, w->ph, w->kh, op->from.height);
    for (int32_t x = 0; x < op->to.width; ++x) {
      const struct ftbnn_taps columns = ftbnn_taps_at(x, w->sw, w->pw, w->kw, op->from.width);
      for (int32_t c = 0; c < op->to.channels; ++c) ftbnn_put(&to, c, ftbnn_average(op, rows, columns, c));
    }
  }
  ftbnn_end(&to);
}

/* PyTorch's adaptive average: output row i covers rows floor(i h / oh) to ceil((i + 1) h / oh). */
static inline struct ftbnn_taps ftbnn_share(int32_t out, int32_t outs, int32_t size) {
  const struct ftbnn_taps taps = {0, out * size / outs, ((out + 1) * size + outs - 1) / outs};
  return taps;
}

static inline void ftbnn_average_to(const struct ftbnn_pool* op, const struct ftbnn_out* out) {
  struct ftbnn_out_writer to = ftbnn_begin(out);
  for (int32_t y = 0; y < op->to.height; ++y) {
    const struct ftbnn_taps rows = ftbnn_share(y, op->to.height, op->from.height);
    for (int32_t x = 0; x < op->to.width; ++x) {
      const struct ftbnn_taps columns = ftbnn_share(x, op->to.width, op->from.width);
      for (int32_t c = 0; c < op->to.channels; ++c) ftbnn_put(&to, c, ftbnn_average(op, rows, columns, c));
    }
  }
  ftbnn_end(&to);
}

/* A max-pool of which only codes are read: the largest is above the threshold where one is. */
struct ftbnn_pool_codes {
  const ftbnn_word* in;
  struct ftbnn_map from, to;
  struct ftbnn_window window;
};

static inline void ftbnn_max_pool_codes(const struct ftbnn_pool_codes* op, ftbnn_word* codes) {
  const struct ftbnn_window* w = &op->window;
  struct ftbnn_writer to = ftbnn_begin_bits(codes);
  for (int32_t y = 0; y < op->to.height; ++y) {
    const struct ftbnn_taps rows = ftbnn_taps_at(y, w->sh, w->ph, w->kh, op->from.height);
    for (int32_t x = 0; x < op->to.width; ++x) {
      const struct ftbnn_taps columns = ftbnn_taps_at(x, w->sw, w->pw, w->kw, op->from.width);
      for (int32_t c = 0; c < op->to.channels; ++c) {
        ftbnn_word bit = 0;
        for (int32_t ky = rows.first; ky < rows.last && bit == 0; ++ky) {
          for (int32_t kx = columns.first; kx < columns.last && bit == 0; ++kx) {
            const int32_t position = (rows.start + ky) * op->from.width + columns.start + kx;
            bit = ftbnn_bits_at(op->in, position * op->from.channels + c, 1);
          }
        }
        ftbnn_put_bit(&to, bit != 0);
      }
    }
  }
  ftbnn_end_bits(&to);
}

/* Channels from elsewhere, run after run: concatenations, repeats, slices, shuffles. */
struct ftbnn_run {
  const float* real;
  const ftbnn_word* codes;
  int32_t channels, first, count; /* of the value it is from; the run */
};

static inline void ftbnn_move(const struct ftbnn_run* runs, int32_t count, int32_t positions,
                              const struct ftbnn_out* out) {
  struct ftbnn_out_writer to = ftbnn_begin(out);
  for (int32_t p = 0; p < positions; ++p) {
    for (int32_t r = 0, c = 0; r < count; ++r) {
      const float* from = runs[r].real + p * runs[r].channels + runs[r].first;
      for (int32_t k = 0; k < runs[r].count; ++k, ++c) ftbnn_put(&to, c, from[k]);
    }
  }
  ftbnn_end(&to);
}

static inline void ftbnn_move_codes(const struct ftbnn_run* runs, int32_t count, int32_t positions, ftbnn_word* codes) {
  struct ftbnn_writer to = ftbnn_begin_bits(codes);
  for (int32_t p = 0; p < positions; ++p) {
    for (int32_t r = 0; r < count; ++r) {
      const int32_t first = p * runs[r].channels + runs[r].first;
      for (int32_t k = 0; k < runs[r].count; ++k) ftbnn_put_bit(&to, ftbnn_bits_at(runs[r].codes, first + k, 1) != 0);
    }
  }
  ftbnn_end_bits(&to);
}

/* A map as a vector: channel, row, column. */
static inline void ftbnn_flatten(const float* in, struct ftbnn_map from, const struct ftbnn_out* out) {
  const int32_t positions = from.height * from.width;
  struct ftbnn_out_writer to = ftbnn_begin(out);
  int32_t at = 0;
  for (int32_t c = 0; c < from.channels; ++c) {
    for (int32_t p = 0; p < positions; ++p, ++at) ftbnn_put(&to, at, in[p * from.channels + c]);
  }
  ftbnn_end(&to);
}

static inline void ftbnn_flatten_codes(const ftbnn_word* in, struct ftbnn_map from, ftbnn_word* codes) {
  const int32_t positions = from.height * from.width;
  struct ftbnn_writer to = ftbnn_begin_bits(codes);
  for (int32_t c = 0; c < from.channels; ++c) {
    for (int32_t p = 0; p < positions; ++p) ftbnn_put_bit(&to, ftbnn_bits_at(in, p * from.channels + c, 1) != 0);
  }
  ftbnn_end_bits(&to);
}

/* An image of bytes, [row][column][channel], or of floats, [channel][row][column]. */
static inline void ftbnn_load_u8(const uint8_t* image, struct ftbnn_map map, const float* scale, const float* shift,
                                 const struct ftbnn_out* out) {
  struct ftbnn_out_writer to = ftbnn_begin(out);
  for (int32_t p = map.height * map.width; p > 0; --p) {
    for (int32_t c = 0; c < map.channels; ++c) ftbnn_put(&to, c, scale[c] * (float)*image++ + shift[c]);
  }
  ftbnn_end(&to);
}

/* The same where only codes are read: pixels are compared with whole numbers. */
static inline void ftbnn_load_u8_codes(const uint8_t* image, struct ftbnn_map map, const int16_t* threshold,
                                       ftbnn_word* codes) {
  struct ftbnn_writer to = ftbnn_begin_bits(codes);
  for (int32_t p = map.height * map.width; p > 0; --p) {
    for (int32_t c = 0; c < map.channels; ++c) ftbnn_put_bit(&to, *image++ > threshold[c]);
  }
  ftbnn_end_bits(&to);
}

static inline void ftbnn_load_f32(const float* image, struct ftbnn_map map, const struct ftbnn_out* out) {
  const int32_t positions = map.height * map.width;
  struct ftbnn_out_writer to = ftbnn_begin(out);
  for (int32_t p = 0; p < positions; ++p) {
    for (int32_t c = 0; c < map.channels; ++c) ftbnn_put(&to, c, image[c * positions + p]);
  }
  ftbnn_end(&to);
}

/* To scores, [channel][row][column]. */
static inline void ftbnn_store(const float* real, struct ftbnn_map map, float* scores) {
  const int32_t positions = map.height * map.width;
  for (int32_t c = 0; c < map.channels; ++c) {
    for (int32_t p = 0; p < positions; ++p) *scores++ = real[p * map.channels + c];
  }
}

#endif
