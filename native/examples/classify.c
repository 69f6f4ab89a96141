/* Classifies one raw 8-bit image: classify MODEL.ftbnn IMAGE.raw  (height x width x channels bytes). */
#include <ftbnn.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s\n", what, why);
  return 2;
}

int main(int argc, char** argv) {
  if (argc != 3) return fail(argv[0], "usage: classify MODEL.ftbnn IMAGE.raw");
  ftbnn_model* model = ftbnn_load(argv[1], 0);
  if (model == NULL) return fail(argv[0], ftbnn_error());
  ftbnn_model_info info;
  ftbnn_info(model, &info);

  const size_t size = (size_t)info.channels * (size_t)info.height * (size_t)info.width;
  uint8_t* image = malloc(size);
  float* scores = malloc(sizeof(float) * (size_t)info.outputs);
  FILE* file = fopen(argv[2], "rb");
  int code = 0;
  if (image == NULL || scores == NULL || file == NULL || fread(image, 1, size, file) != size || fgetc(file) != EOF) {
    code = fail(argv[2], "cannot be read, or has not height x width x channels bytes");
  } else if (ftbnn_run_u8(model, image, 1, scores) != 0) {
    code = fail(argv[2], ftbnn_error());
  } else {
    int best = 0;
    for (int k = 1; k < info.outputs; ++k) {
      if (scores[k] > scores[best]) best = k;
    }
    const char* name = ftbnn_class_name(model, best);
    printf("%d %s %.6f\n", best, name != NULL ? name : "-", (double)scores[best]);
  }
  if (file != NULL) fclose(file);
  free(scores);
  free(image);
  ftbnn_free(model);
  return code;
}
