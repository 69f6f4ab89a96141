// Where the codes of a group lie as bytes for tiles, and the steps in which a window meets them.
//
// A tile multiplies rows of 64 bytes, full or not. Channels that fill them are lines, and a step is a line of a tap:
//   [word][row % stride_y][column % stride_x][row / stride_y][column / stride_x][64]
// The rest, fewer than 64 channels, would leave most of a line empty. Its positions lie as close as they can,
//   [row % stride_y][column % stride_x][row / stride_y][column / stride_x][stack][rest]
// so that taps which are neighbours in a plane are one run of bytes, and a step is 64 of a run, from any byte on: 3 x
// 35 channels are 2 steps in place of 3. What follows a run in its last step meets weights of 0. A position has the
// rest of its row alone (stack 1), so that there is a run for each row of the window, or of all rows of the window that
// starts there (stack kh; only rows where windows start): one run, as few steps as its bytes can be, for more bytes to
// write.
#pragma once

#include <vector>

#include "kernels/bconv/bconv.h"
#include "kernels/bconv/tiles.h"

namespace ftbnn {

// Tiles that so many output channels of a group take: 16 each.
inline std::size_t tile_halves(int channels) {
  return (static_cast<std::size_t>(channels) + PANEL / 2 - 1) / (PANEL / 2);
}

class ByteLayout {
 public:
  // The cheapest by cycles, for a group of so many channels in.
  ByteLayout(const BConvShape& shape, int channels);

  std::size_t bytes() const;
  std::size_t step_count() const;
  std::vector<TileStep> steps() const;
  // Where the weights of a tap's word begin, in bits from the start of the steps.
  std::size_t weight_bit(int tap, int word) const;

  int channels() const { return channels_; }
  int lines() const { return lines_; }  // of a position
  int rest() const { return rest_; }    // channels past them
  int stack() const { return stack_; }
  bool starts_stack(int row) const { return stack_ == 1 || row % stride_y_ == 0; }

  // Bytes from the start to column 0 of a row, and from one phase of columns to the next.
  std::size_t line_at(int word, int row) const { return (z(word) * planes() + at(row, 0)) * LINE; }
  std::size_t rest_at(int row) const { return z(lines_) * planes() * LINE + at(row, 0) * pitch(); }
  std::size_t line_phase() const { return phase() * LINE; }
  std::size_t rest_phase() const { return phase() * pitch(); }
  std::size_t pitch() const { return z(stack_) * z(rest_); }
  std::size_t columns() const { return plane_columns_; }
  int stride_x() const { return stride_x_; }

 private:
  static std::size_t z(int value) { return static_cast<std::size_t>(value); }

  // Positions of one phase of row and column, and of all.
  std::size_t phase() const { return plane_rows_ * plane_columns_; }
  std::size_t planes() const { return z(stride_y_) * z(stride_x_) * phase(); }
  std::size_t at(int y, int x) const {
    return z(y % stride_y_ * stride_x_ + x % stride_x_) * phase() + z(y / stride_y_) * plane_columns_ +
           z(x / stride_x_);
  }
  std::size_t run_steps(int taps) const { return (z(taps) * pitch() + LINE - 1) / LINE; }
  std::size_t steps_before(int phase) const;
  std::size_t cost(std::size_t halves) const;

  int channels_, kh_, kw_, stride_y_, stride_x_;
  std::size_t plane_rows_, plane_columns_;
  int lines_, rest_, stack_;
};

}  // namespace ftbnn
