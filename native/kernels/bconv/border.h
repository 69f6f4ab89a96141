// Where windows hang over the edge of an image, and what that changes in the sums of a binary convolution.
#pragma once

#include <cstdint>
#include <vector>

namespace ftbnn {

// The taps of a window that lie inside the image, [first, last).
struct Inside {
  int first, last;
  bool operator==(const Inside& other) const { return first == other.first && last == other.last; }
};

// Output rows (or columns) that see the same taps inside the image are one class.
struct BorderClasses {
  BorderClasses() = default;
  BorderClasses(int out, int stride, int kernel, int padding, int size);

  std::size_t count() const { return kinds.size(); }

  std::vector<std::uint8_t> of;  // the class of each row (or column)
  std::vector<Inside> kinds;     // and what a class sees
};

// Of one panel: what xor counts for taps outside the image, and the number of products inside; `base` of words.h.
// weights: [kh][kw][words][PANEL] of so many `channels` in; base: [rows][columns][PANEL], all written.
void border_bases(const std::uint64_t* weights, int channels, int kh, int kw, const std::vector<Inside>& rows,
                  const std::vector<Inside>& columns, std::int32_t* base);

// The ones of each lane's weights, [words][PANEL].
void weight_ones(const std::uint64_t* weights, std::size_t words, std::int32_t* ones);

}  // namespace ftbnn
