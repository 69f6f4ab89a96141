/* The C API: load a .ftbnn file, ask what it is, run it, free it. No Python, no C++ in sight.
 *
 * Functions that can fail return NULL or a non-zero code; ftbnn_error() then says why, in one line, for this thread.
 * A model may be run from several threads at once.
 */
#ifndef FTBNN_H
#define FTBNN_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define FTBNN_API
#else
#define FTBNN_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ftbnn_model ftbnn_model;

typedef struct {
  const char* name;                /* as the file says; lives as long as the model */
  int32_t channels, height, width; /* of an input image */
  int32_t outputs;                 /* floats per image that a run gives */
  int32_t classes;                 /* class names in the file: 0 or `outputs` */
  int32_t threads;
  const char* isa; /* "amx", "avx512", "avx2" or "portable" */
} ftbnn_model_info;

/* Reads the file. `threads`, 0 to 1024; 0 means one per core. Returns NULL on failure. */
FTBNN_API ftbnn_model* ftbnn_load(const char* path, int32_t threads);

/* The same for a file that is in memory already; the bytes are copied. */
FTBNN_API ftbnn_model* ftbnn_load_bytes(const void* bytes, size_t size, int32_t threads);

FTBNN_API void ftbnn_free(ftbnn_model* model);

/* Fills `info`. Returns 0. */
FTBNN_API int ftbnn_info(const ftbnn_model* model, ftbnn_model_info* info);

/* The name of class `index`, or NULL if there is none. */
FTBNN_API const char* ftbnn_class_name(const ftbnn_model* model, int32_t index);

/* Normalised float images [batch][channels][height][width] in, [batch][outputs] out. Returns 0 on success;
 * NaN and infinity are refused. */
FTBNN_API int ftbnn_run(const ftbnn_model* model, const float* images, int32_t batch, float* outputs);

/* 8-bit images [batch][height][width][channels] in, normalised as the file says. Returns 0 on success. */
FTBNN_API int ftbnn_run_u8(const ftbnn_model* model, const uint8_t* images, int32_t batch, float* outputs);

/* Why the last call of this thread failed. */
FTBNN_API const char* ftbnn_error(void);

#ifdef __cplusplus
}
#endif

#endif
