/* The C API: load a .ftbnn file, ask what it is, run it, free it. No Python, no C++ in sight.
 *
 * Functions that can fail return NULL or a code other than FTBNN_OK; ftbnn_error() then says why, in one line, for this
 * thread, until its next call that fails, and ftbnn_error_code() which kind it was.
 *
 * Threads: a model may be run from several threads at once. One call at a time has the model's own threads; another
 * works on its caller's thread alone meanwhile and gives the same bits. A caller that wants no more than its own thread
 * brings a context. Freeing a model that somebody still runs is the caller's mistake. No function may be called from
 * a signal handler.
 *
 * Fork: a child may go on using a model of its parent; the model's threads start anew there. Fork while no other thread
 * is inside a call, as with any library that has locks.
 *
 * Compatibility: structures may grow at their ends and functions may be added; a program that was compiled with this
 * header runs with any later library of the same SONAME, libftbnn.so.MAJOR.MINOR. Structures that a caller fills or has
 * filled travel with their size, so that old and new agree. Floats may change in the last bits from release to release,
 * and from ISA to ISA; not from call to call, batch to batch or number of threads.
 */
#ifndef FTBNN_H
#define FTBNN_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32) && defined(FTBNN_EXPORTS)
#define FTBNN_API __declspec(dllexport)
#elif defined(_WIN32)
#define FTBNN_API
#else
#define FTBNN_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What a call came to. */
enum {
  FTBNN_OK = 0,
  FTBNN_ARGUMENT = 1, /* a null pointer, an empty batch, images that are not finite, an ISA that is not there */
  FTBNN_FILE = 2,     /* the operating system does not let the file be read */
  FTBNN_FORMAT = 3,   /* not a .ftbnn file, or one that asks for more than it may */
  FTBNN_MEMORY = 4,   /* there is not enough */
  FTBNN_OTHER = 5
};

/* The version of the library, as "0.2.0". */
FTBNN_API const char* ftbnn_version(void);

typedef struct ftbnn_model ftbnn_model;

/* How to load a file; start with FTBNN_OPTIONS, and what is 0 or NULL is chosen for you. */
typedef struct {
  size_t size;        /* of this structure */
  int32_t threads;    /* 1 to 1024; by default one per core that the process may use */
  const char* isa;    /* "amx", "avx512", "avx2", "portable", ...; by default FTBNN_ISA or the best */
  uint64_t max_bytes; /* what a file may take: memory of the network and of one image under way; by default 2^30 */
  uint64_t max_macs;  /* and operations an image; by default 2^40 */
  int32_t any_order;  /* not 0: real convolutions may sum in another order where that is faster; rounds otherwise */
} ftbnn_options;

#define FTBNN_OPTIONS {sizeof(ftbnn_options), 0, NULL, 0, 0, 0}

/* Reads the file, or a file that is in memory already; the bytes are copied. `options` may be NULL.
 * Returns NULL on failure. */
FTBNN_API ftbnn_model* ftbnn_open(const char* path, const ftbnn_options* options);
FTBNN_API ftbnn_model* ftbnn_open_bytes(const void* bytes, size_t size, const ftbnn_options* options);

/* The same with nothing but a number of threads, 0 for one per core. */
FTBNN_API ftbnn_model* ftbnn_load(const char* path, int32_t threads);
FTBNN_API ftbnn_model* ftbnn_load_bytes(const void* bytes, size_t size, int32_t threads);

FTBNN_API void ftbnn_free(ftbnn_model* model);

typedef struct {
  const char* name;                /* as the file says, UTF-8; lives as long as the model, as all pointers here */
  int32_t channels, height, width; /* of an input image */
  int32_t outputs;                 /* floats per image that a run gives */
  int32_t classes;                 /* class names in the file: 0 or `outputs` */
  int32_t threads;
  const char* isa;
  /* How a photo becomes an image: its shorter side is resized to `resize` pixels, its centre cut out, and an 8-bit
   * value x enters as (x / 255 - mean) / std. ftbnn_run_u8 does the last step itself. */
  int32_t resize;
  const float *mean, *std; /* one for each channel */
  int32_t operators;       /* that the network has */
} ftbnn_model_info;

/* Fills the first `size` bytes of `info`. */
FTBNN_API int ftbnn_info_sized(const ftbnn_model* model, ftbnn_model_info* info, size_t size);
#define ftbnn_info(model, info) ftbnn_info_sized((model), (info), sizeof(ftbnn_model_info))

/* The name of class `index`, or NULL if there is none. */
FTBNN_API const char* ftbnn_class_name(const ftbnn_model* model, int32_t index);

/* Normalised float images [batch][channels][height][width] in, [batch][outputs] out. NaN and infinity are refused. */
FTBNN_API int ftbnn_run(const ftbnn_model* model, const float* images, int32_t batch, float* outputs);

/* 8-bit images [batch][height][width][channels] in, normalised as the file says. */
FTBNN_API int ftbnn_run_u8(const ftbnn_model* model, const uint8_t* images, int32_t batch, float* outputs);

/* The memory of one thread's calls. They work on that thread alone, never wait for another and allocate nothing. One
 * thread at a time may use a context; free it before its model. */
typedef struct ftbnn_context ftbnn_context;
FTBNN_API ftbnn_context* ftbnn_context_new(const ftbnn_model* model);
FTBNN_API void ftbnn_context_free(ftbnn_context* context);
FTBNN_API int ftbnn_context_run(ftbnn_context* context, const float* images, int32_t batch, float* outputs);
FTBNN_API int ftbnn_context_run_u8(ftbnn_context* context, const uint8_t* images, int32_t batch, float* outputs);

/* A class that an image may be of, and its share of all (softmax). */
typedef struct {
  int32_t index;
  float share;
} ftbnn_guess;

/* The k best of an image's `count` scores, best first, of equal ones the first. Needs no model. */
FTBNN_API int ftbnn_top(const float* scores, int32_t count, ftbnn_guess* guesses, int32_t k);

/* Where the time goes. */
typedef struct {
  const char* path; /* the layer, as the file says; lives as long as the model */
  const char* kind; /* "bconv", "conv", ...; "input" is the image's conversion */
  uint64_t macs;    /* multiply-accumulates, of bits or of numbers */
  double seconds;
} ftbnn_operator_time;

/* Runs one 8-bit image `rounds` times on the model's threads and fills info.operators + 1 rows, of which the first is
 * the image's conversion, with the fastest of each. `size` is sizeof(ftbnn_operator_time). */
FTBNN_API int ftbnn_profile_sized(const ftbnn_model* model, const uint8_t* image, int32_t rounds,
                                  ftbnn_operator_time* rows, size_t size);
#define ftbnn_profile(model, image, rounds, rows) \
  ftbnn_profile_sized((model), (image), (rounds), (rows), sizeof(ftbnn_operator_time))

/* Why the last call of this thread that failed did, and as one of the codes above; FTBNN_OK if none has. */
FTBNN_API const char* ftbnn_error(void);
FTBNN_API int ftbnn_error_code(void);

#ifdef __cplusplus
}
#endif

#endif
