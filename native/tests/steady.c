/* Counts the allocations of calls after the first ones: steady MODEL.ftbnn THREADS BATCH. For glibc. */
#include <ftbnn.h>
#include <stdio.h>
#include <stdlib.h>

extern void* __libc_malloc(size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);

static int allocations;

static void* counted(void* memory) {
  __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
  return memory;
}

void* malloc(size_t size) { return counted(__libc_malloc(size)); }
void* aligned_alloc(size_t alignment, size_t size) { return counted(__libc_memalign(alignment, size)); }

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int batch = atoi(argv[3]);
  ftbnn_model* model = ftbnn_load(argv[1], atoi(argv[2]));
  ftbnn_model_info info;
  if (ftbnn_info(model, &info) != 0) return 2;
  const size_t pixels = (size_t)batch * (size_t)info.channels * (size_t)info.height * (size_t)info.width;
  float* images = calloc(pixels, sizeof(float));
  uint8_t* bytes = calloc(pixels, 1);
  float* scores = calloc((size_t)batch * (size_t)info.outputs, sizeof(float));
  int before = 0;
  for (int call = 0; call < 200; ++call) {
    if (call == 100) before = allocations;
    if (ftbnn_run(model, images, batch, scores) != 0 || ftbnn_run_u8(model, bytes, batch, scores) != 0) return 2;
  }
  const int found = allocations - before;
  if (before == 0) return 2; /* it counts nothing */
  printf("%d\n", found);
  return 0;
}
