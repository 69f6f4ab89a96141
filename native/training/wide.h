// Rows of few channels in whole vectors: as many positions side by side as fill them are one row.
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

namespace ftbnn::training {

class Wide {
 public:
  explicit Wide(int channels) : channels_(channels), times_(channels > MOST ? 1 : LANES / std::gcd(LANES, channels)) {}

  int width() const { return times_ * channels_; }

  // A value per channel, for every position of a row; of a single position, the beginning of it.
  std::vector<float> repeat(const float* values) const {
    std::vector<float> row;
    for (int t = 0; t < times_; ++t) row.insert(row.end(), values, values + channels_);
    return row;
  }

  // to[channel] += what a row of `width` channels has of it.
  void add(const float* row, int width, float* to) const {
    for (int first = 0; first < width; first += channels_) {
      for (int c = 0; c < channels_; ++c) to[c] += row[first + c];
    }
  }

  // body(first position, rows, channels of a row): rows of several positions, then the positions that are left.
  template <typename Body>
  void run(std::size_t positions, const Body& body) const {
    const auto times = static_cast<std::size_t>(times_);
    const std::size_t rows = positions / times, covered = rows * times;
    if (rows > 0) body(std::size_t{0}, rows, width());
    if (covered < positions) body(covered, positions - covered, channels_);
  }

 private:
  static constexpr int LANES = 16;
  static constexpr int MOST = 256;  // beyond, the channels that fill no vector hardly count
  int channels_, times_;
};

}  // namespace ftbnn::training
