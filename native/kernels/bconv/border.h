// Where windows hang over the edge of an image, and what that changes in the sums of a binary convolution.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/bconv/bconv.h"

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

// What xor counts beside the products: acc = base - worth * pop (words.h).
class Borders {
 public:
  Borders() = default;
  // Codes {0, 1} know no border: all rows and columns are of one class.
  explicit Borders(const BConvShape& shape);

  std::size_t classes() const { return rows.count() * columns.count(); }
  // Of one panel. weights: [kh][kw][words][PANEL] of so many `channels` in; base: [rows][columns][PANEL], all written.
  void find_bases(const std::uint64_t* weights, int channels, std::int32_t* base) const;

  BorderClasses rows, columns;
  float worth = 2;

 private:
  int kh_ = 0, kw_ = 0;
  bool is_zero_one_ = false;
};

}  // namespace ftbnn
