// The forward convolution of a training step: weights packed from the proxies, images from dense codes.
//
// Rows of bits by popcount, or bytes by tiles where the CPU has them and the images fill them: the same integers.
#pragma once

#include <cstdint>
#include <vector>

#include "base/aligned.h"
#include "kernels/block/rows.h"
#include "kernels/border.h"
#include "kernels/table.h"
#include "training/conv_grad.h"

namespace ftbnn::training {

class BinaryConv {
 public:
  // Packs the signs of the proxies.
  BinaryConv(const ConvShape& shape, bool zero_one, const float* weight, const float* tail, Isa isa, Team& team);

  // All images: codes [n][h][w][words] in, y [n][oh][ow][out] out, and its sums and sums of squares per channel.
  void run(const std::uint64_t* codes, std::int16_t* y, std::int64_t* sums, std::int64_t* squares, Team& team) const;

  // Whether tiles do it, not popcounts.
  static bool by_tiles(const ConvShape& shape, Isa isa);

  // Products in one output at most: what |y| cannot exceed.
  static int limit(const ConvShape& shape);

 private:
  struct Group {
    int in_first, in_size, out_first, out_size, words, first_panel;
    std::size_t weights_at;
  };

  void pack_weights(const float* weight, const float* tail, Team& team);
  void find_bases(Team& team);
  void count_ones(const Group& group, const std::uint64_t* plane, std::int32_t* ones) const;
  void fill_plane(const Group& group, const std::uint64_t* codes, std::uint64_t* plane) const;
  Epilogue as_they_are() const;  // sums as floats

  // One image, sums and sums of squares added.
  void run_rows(const std::uint64_t* codes, std::int16_t* y, std::int64_t* sums, std::int64_t* squares) const;

  // binary_conv_tiles.cc: how many images are best taken together, and so many images.
  int images_by_tiles(int threads) const;
  void run_tiles(const std::uint64_t* codes, int images, std::int16_t* y, std::int64_t* sums,
                 std::int64_t* squares) const;

  ConvShape shape_;
  bool zero_one_;
  const Kernels& kernels_;
  const BlockRows& rows_;
  bool by_tiles_;
  int plane_rows_, plane_columns_, panels_ = 0;
  std::vector<Group> groups_;
  AlignedArray<std::uint64_t> weights_;                 // per group and panel [kh][kw][words][PANEL]
  std::vector<std::uint8_t> row_class_, column_class_;  // which taps an output row (column) sees inside the image
  std::vector<Inside> row_kinds_, column_kinds_;
  AlignedArray<std::int32_t> bases_;  // [panel][row class][column class][PANEL]: see kernels/conv_row.h
};

}  // namespace ftbnn::training
