// Work cut into pieces: how many and how large is a function of its size alone, never of the number of threads; and
// where in an array a piece begins.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ftbnn::training {

struct Pieces {
  explicit Pieces(std::size_t total, std::size_t least = 16)
      : total(total), size(std::max(least, (total + 127) / 128)) {}
  int count() const { return static_cast<int>((total + size - 1) / size); }
  std::size_t first(int piece) const { return static_cast<std::size_t>(piece) * size; }
  std::size_t length(int piece) const { return std::min(size, total - first(piece)); }
  std::size_t total, size;
};

// to[k] += number k of every row, the rows in their order.
template <typename T>
void add_rows(const std::vector<T>& rows, std::vector<double>& to) {
  for (std::size_t first = 0; first < rows.size(); first += to.size()) {
    for (std::size_t k = 0; k < to.size(); ++k) to[k] += static_cast<double>(rows[first + k]);
  }
}

// What is absent stays so.
template <typename T>
T* from(T* start, std::size_t at) {
  return start != nullptr ? start + at : nullptr;
}

}  // namespace ftbnn::training
