// Pooling, row by row, of maps with channels innermost: the contract of its kernels.
//
// Tap t of an output is row t / kw and column t % kw of its window. A window may reach beyond the map: what lies there
// does not count, but for the divisor of an average if `count_pad` (never beyond the padding, as in PyTorch).
// Every window must have a tap inside the map.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/norm/norm.h"

namespace ftbnn {

struct PoolShape {
  int h, w, channels, oh, ow, kh, kw, sh, sw, ph, pw;
  bool count_pad;
};

// x: [h][w][channels]; grad: [oh][ow][channels]; of one image both.
struct PoolKernels {
  // Output row `row` of an average: the sum of its taps in their order, divided.
  void (*average)(const PoolShape& shape, const float* x, int row, float* out);

  // And row `row` of the gradient of x.
  void (*spread)(const PoolShape& shape, const float* grad, int row, float* grad_x);

  // Output row `row` of the maximum of z = scale * (x - mean) + shift, and the tap that it came from: the first of
  // equal ones, the last of NaNs. At most 256 taps.
  void (*largest)(const PoolShape& shape, const float* x, const NormForm& form, int row, float* out,
                  std::uint8_t* taps);

  // And row `row` of the gradient of z.
  void (*route)(const PoolShape& shape, const float* grad, const std::uint8_t* taps, int row, float* grad_z);
};

template <typename Kernels>
class Table;
const Table<PoolKernels>& pool_table();

}  // namespace ftbnn
