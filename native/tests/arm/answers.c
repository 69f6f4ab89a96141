/* answers MODEL.ftbnn IMAGES COUNT THREADS: the scores of COUNT raw 8-bit images, one image to a line, each score as
 * the bits of its float. By the kernels of FTBNN_ISA; what they are called is the first line. */
#include <ftbnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s\n", what, why);
  return 2;
}

int main(int argc, char** argv) {
  if (argc != 5) return fail(argv[0], "usage: answers MODEL.ftbnn IMAGES COUNT THREADS");
  ftbnn_model* model = ftbnn_load(argv[1], atoi(argv[4]));
  if (model == NULL) return fail(argv[1], ftbnn_error());
  ftbnn_model_info info;
  ftbnn_info(model, &info);
  const size_t size = (size_t)info.channels * (size_t)info.height * (size_t)info.width;
  uint8_t* image = malloc(size);
  float* scores = malloc(sizeof(float) * (size_t)info.outputs);
  FILE* file = fopen(argv[2], "rb");
  if (image == NULL || scores == NULL || file == NULL) return fail(argv[2], "cannot be read");
  printf("%s\n", info.isa);
  for (int n = 0; n < atoi(argv[3]); ++n) {
    if (fread(image, 1, size, file) != size) return fail(argv[2], "has fewer images");
    if (ftbnn_run_u8(model, image, 1, scores) != 0) return fail(argv[1], ftbnn_error());
    for (int k = 0; k < info.outputs; ++k) {
      uint32_t bits;
      memcpy(&bits, scores + k, sizeof bits);
      printf("%08lx%c", (unsigned long)bits, k + 1 < info.outputs ? ' ' : '\n');
    }
  }
  fclose(file);
  free(scores);
  free(image);
  ftbnn_free(model);
  return 0;
}
