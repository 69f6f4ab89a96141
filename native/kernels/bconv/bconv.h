// Binary convolution: the contract of its kernels.
//
//   acc[y][x][o] = sum over ky, kx, c of  code[y * sh + ky - ph][x * sw + kx - pw][c] * w[o][ky][kx][c]
//
// with codes {-1, +1} (zero_one: {0, 1}) by their bits inside the image and 0 outside, and w = +1 where the weight's
// bit is 1, -1 where it is 0. Then the epilogue.
//
// A kernel prepares its operands itself. `make` lays out the weights; arrange() turns the codes of an image into what
// the kernel reads for some output rows; run() multiplies. A kernel that reads codes where they lie arranges nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/table.h"
#include "kernels/epilogue/epilogue.h"
#include "kernels/window.h"

namespace ftbnn {

// Neighbouring bits of a position.
struct BitRun {
  int first, count;
  bool operator==(const BitRun& other) const { return first == other.first && count == other.count; }
};

// Where codes are: at each position so many words, whose first `bits` are somebody's and whose others are 0; of each
// group the runs that hold its channels, one after the other.
struct CodeLayout {
  std::size_t words;
  int bits;
  std::vector<std::vector<BitRun>> groups;
  bool has_border;  // zeros all around the image, as far as windows reach: it may be read in place
};

// The codes of one image.
struct Codes {
  const std::uint64_t* at;  // position (0, 0)
  std::size_t row;          // words from one row to the next
};

// Weights as bits: of each output channel [kh][kw][words of its group's inputs], channel c is bit c % 64 of word c
// / 64.
using WeightWords = const std::uint64_t*;

struct BConvShape : ConvShape {
  bool zero_one;
};

// Output rows [first, last) of a panel, or of several that are neighbours, of one image or several; each image's codes
// are arranged.
struct BConvCall {
  Codes codes;  // of the first image, if they are read in place
  const void* arranged;
  std::size_t arranged_image;  // bytes from one image to the next
  int images;
  std::size_t out_image;  // floats of `out` from one image to the next; several images have no shortcut and no codes
  int panel, first, last;
  int panels = 1;  // at most as many as the kernel does at once
  void* scratch;   // the caller's own, on a cache line
  Epilogue end;    // of row `first` of the first panel; those of the next follow (of_panel)
};

class BConv {
 public:
  BConv() = default;
  virtual ~BConv() = default;
  BConv(const BConv&) = delete;
  BConv& operator=(const BConv&) = delete;

  virtual std::size_t arranged_bytes() const { return 0; }
  virtual std::size_t scratch_bytes() const { return 0; }
  virtual bool arranges() const { return false; }
  virtual int panels_at_once() const { return 1; }
  // All that output rows [first, last) read, and maybe more.
  virtual void arrange(int /*first*/, int /*last*/, const Codes&, void* /*arranged*/, void* /*scratch*/) const {}
  virtual void run(const BConvCall& call) const = 0;
  // What so many rows of a panel take, beside other numbers of rows: lanes may stay empty.
  virtual int effort(int rows) const { return rows; }
  // Outputs that a call should make where the caller has the choice: more leave the cache, fewer repeat work.
  virtual std::size_t best_outputs() const { return std::size_t{1} << 13; }
};

struct BConvKernels {
  bool (*can)(const BConvShape& shape);     // do it at all
  bool (*suits)(const BConvShape& shape);   // do it, and faster than the rows behind
  Sizes (*sizes)(const BConvShape& shape);  // at most
  std::unique_ptr<BConv> (*make)(const BConvShape& shape, const CodeLayout& layout, WeightWords weights);
  bool joins_groups;  // its panels are neighbouring output channels whatever the groups; else each one group's

  Groups panels(const ConvShape& shape) const { return {shape.out, joins_groups ? 1 : shape.groups}; }
};

const Table<BConvKernels>& bconv_table();

// An earlier group that reads the same bits, or -1. Only neighbours and the first can be the same: x beside itself, in
// whatever number of groups.
int same_group(const CodeLayout& layout, int group);

// Words of all weights.
std::size_t weight_words(const ConvShape& shape);

// A group's codes at `width` positions, from its runs, as `words` words of their own each.
void gather_codes(const std::uint64_t* from, std::size_t from_words, int width, const std::vector<BitRun>& runs,
                  std::uint64_t* to, std::size_t words);

// The same with as few bytes a position as hold its bits; past the last one up to 7 bytes are overwritten. scratch: of
// as many words as gather_codes would write.
void gather_bytes(const std::uint64_t* from, std::size_t from_words, int width, const std::vector<BitRun>& runs,
                  std::uint8_t* to, std::size_t bytes, std::uint64_t* scratch);

}  // namespace ftbnn
