// The forward convolution of a training step: weights packed from the proxies, images from dense codes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/team.h"
#include "kernels/bconv/bconv.h"
#include "kernels/block/block.h"
#include "training/batch.h"

namespace ftbnn::training {

class BinaryConv {
 public:
  // Packs the signs of the proxies.
  BinaryConv(const BatchShape& shape, bool zero_one, const float* weight, const float* tail, Features usable,
             Team& team);

  // All images: codes [n][h][w][words] in, y [n][oh][ow][out] out, and its sums and sums of squares per channel.
  void run(const std::uint64_t* codes, std::int16_t* y, std::int64_t* sums, std::int64_t* squares, Team& team) const;

  // Products in one output at most: what |y| cannot exceed.
  static int limit(const BatchShape& shape) { return shape.ins().largest() * shape.taps(); }

 private:
  void run_images(const std::uint64_t* codes, int images, std::int16_t* y, std::int64_t* sums,
                  std::int64_t* squares) const;

  const BatchShape s_;
  const BlockKernels& rows_;
  std::unique_ptr<BConv> conv_;
  std::vector<Panel> panels_;        // of its outputs
  std::vector<float> ones_, zeros_;  // scale and shift of as many panels as the kernel does at once
};

}  // namespace ftbnn::training
