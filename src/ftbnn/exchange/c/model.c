/* @about@: made by ftbnn @version@; @name@.h says how to use it. */
#include "@name@.h"
@curves@
#include "ftbnn_between.h"
#include "ftbnn_convolutions.h"

/* Where the values of an image live; e.g. -D@NAME@_ARENA='__attribute__((section(".dtcm")))' puts it elsewhere. */
#ifndef @NAME@_ARENA
#define @NAME@_ARENA
#endif

static struct {
@arena@
} arena @NAME@_ARENA;

typedef char arena_has_the_size_that_is_said[sizeof arena == @NAME@_ARENA_BYTES ? 1 : -1];

@constants@
static void run(float* scores) {
@calls@  ftbnn_store(@output@, (struct ftbnn_map)@shape@, scores);
}

void @name@_run(const uint8_t* image, float* scores) {
@load_u8@
  run(scores);
}

void @name@_run_f32(const float* image, float* scores) {
@load_f32@
  run(scores);
}

int @name@_best(const float* scores) {
  int best = 0;
  for (int k = 1; k < @NAME@_OUTPUTS; ++k) {
    if (scores[k] > scores[best]) best = k;
  }
  return best;
}
@names@
