// The ways in which kernels lay out a binary convolution, as rows of the table: an ISA brings its loops, a layout the
// rest.
#pragma once

#include "kernels/bconv/adders.h"
#include "kernels/bconv/bconv.h"
#include "kernels/bconv/planes.h"
#include "kernels/bconv/tiles.h"
#include "kernels/bconv/words.h"

namespace ftbnn {

Sizes words_sizes(const BConvShape& shape, const WordKernels& kernels);
std::unique_ptr<BConv> make_by_words(const BConvShape& shape, const CodeLayout& layout, WeightWords weights,
                                     const WordKernels& kernels);

// Counting bits in words (words.cc).
template <const WordKernels& kernels>
BConvKernels by_words() {
  return {kernels.can, kernels.suits, [](const BConvShape& shape) { return words_sizes(shape, kernels); },
          [](const BConvShape& shape, const CodeLayout& layout, WeightWords weights) {
            return make_by_words(shape, layout, weights, kernels);
          },
          true};
}

bool can_planes(const BConvShape& shape);
Sizes planes_sizes(const BConvShape& shape, const PlaneKernels& kernels);
std::unique_ptr<BConv> make_by_planes(const BConvShape& shape, const CodeLayout& layout, WeightWords weights,
                                      const PlaneKernels& kernels);

// Positions in lanes (planes.cc).
template <const PlaneKernels& kernels>
BConvKernels by_planes() {
  return {can_planes,
          [](const BConvShape& shape) { return can_planes(shape) && shape.outs().size(0) <= kernels.widest; },
          [](const BConvShape& shape) { return planes_sizes(shape, kernels); },
          [](const BConvShape& shape, const CodeLayout& layout, WeightWords weights) {
            return make_by_planes(shape, layout, weights, kernels);
          },
          true};
}

bool can_adders(const BConvShape& shape);
bool suits_adders(const BConvShape& shape);
Sizes adders_sizes(const BConvShape& shape, const AdderKernels& kernels);
std::unique_ptr<BConv> make_by_adders(const BConvShape& shape, const CodeLayout& layout, WeightWords weights,
                                      const AdderKernels& kernels);

// Adding bits of many output channels at once (adders.cc).
template <const AdderKernels& kernels>
BConvKernels by_adders() {
  return {can_adders, suits_adders, [](const BConvShape& shape) { return adders_sizes(shape, kernels); },
          [](const BConvShape& shape, const CodeLayout& layout, WeightWords weights) {
            return make_by_adders(shape, layout, weights, kernels);
          },
          false};
}

bool can_tiles(const BConvShape& shape);
bool suits_tiles(const BConvShape& shape);
Sizes tiles_sizes(const BConvShape& shape);
std::unique_ptr<BConv> make_by_tiles(const BConvShape& shape, const CodeLayout& layout, WeightWords weights,
                                     const TileKernels& kernels);

// Products of bytes in tile registers (tiles.cc).
template <const TileKernels& kernels>
BConvKernels by_tiles() {
  return {can_tiles, suits_tiles, tiles_sizes,
          [](const BConvShape& shape, const CodeLayout& layout, WeightWords weights) {
            return make_by_tiles(shape, layout, weights, kernels);
          },
          false};
}

}  // namespace ftbnn
