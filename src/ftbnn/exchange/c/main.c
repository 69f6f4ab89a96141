/* Runs the network on the images of test_vector.h and compares every bit of its scores with those of the engine's
 * portable kernels. Prints one line; 0 if all are the same. */
#include <stdio.h>
#include <string.h>

#include "@name@.h"
#include "test_vector.h"

int main(void) {
  int wrong = 0;
  for (int k = 0; k < TEST_IMAGES; ++k) {
    float scores[@NAME@_OUTPUTS];
    @name@_run(test_images[k], scores);
    for (int o = 0; o < @NAME@_OUTPUTS; ++o) {
      uint32_t bits;
      memcpy(&bits, &scores[o], sizeof bits);
      wrong += bits != test_scores[k][o];
    }
  }
  if (wrong > 0) {
    printf("%d of %d scores differ: compile with -ffp-contract=off and without -ffast-math\n", wrong,
           TEST_IMAGES * @NAME@_OUTPUTS);
    return 1;
  }
  printf("ok: %d images, every bit of %d scores each\n", TEST_IMAGES, @NAME@_OUTPUTS);
  return 0;
}
