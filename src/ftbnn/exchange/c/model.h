/* @about@: made by ftbnn @version@. Plain C99; needs no library.
 *
 *   float scores[@NAME@_OUTPUTS];
 *   @name@_run(pixels, scores);
 *   puts(@best@);
 *
 * Constants take @constants@ bytes (flash), the values of one image @NAME@_ARENA_BYTES (RAM, static). The functions are
 * not reentrant: the arena is one. They cannot fail, and use little stack. */
#ifndef @NAME@_H
#define @NAME@_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define @NAME@_CHANNELS @channels@
#define @NAME@_HEIGHT @height@
#define @NAME@_WIDTH @width@
#define @NAME@_OUTPUTS @outputs@
#define @NAME@_CLASSES @classes@ /* names there are: 0 or one for each output */
#define @NAME@_ARENA_BYTES @arena@

/* An 8-bit image [height][width][channels], normalised here as the network wants it; scores come out. */
void @name@_run(const uint8_t* image, float* scores);

/* An image of floats [channels][height][width], normalised already: (x / 255 - mean) / std. Not NaN, not infinite. */
void @name@_run_f32(const float* image, float* scores);

/* The number of the best score. */
int @name@_best(const float* scores);
@names@
#ifdef __cplusplus
}
#endif

#endif
