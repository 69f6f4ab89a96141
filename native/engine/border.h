// Where windows hang over the edge of an image.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ftbnn {

// The taps of a window that lie inside the image, [first, last).
struct Inside {
  int first, last;
  bool operator==(const Inside& other) const { return first == other.first && last == other.last; }
};

// Output rows (or columns) that see the same taps inside the image are one class.
inline std::vector<std::uint8_t> border_classes(int out, int stride, int kernel, int padding, int size,
                                                std::vector<Inside>& kinds) {
  std::vector<std::uint8_t> classes;
  for (int o = 0; o < out; ++o) {
    const int start = o * stride - padding;
    const Inside inside{std::clamp(-start, 0, kernel), std::clamp(size - start, 0, kernel)};
    const auto found = std::find(kinds.begin(), kinds.end(), inside);
    classes.push_back(static_cast<std::uint8_t>(found - kinds.begin()));
    if (found == kinds.end()) kinds.push_back(inside);
  }
  return classes;
}

}  // namespace ftbnn
