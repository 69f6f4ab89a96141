// The specification of sliced_row.h in plain loops; never used for speed.
#include <cstring>

#include "kernels/sliced_row.h"

namespace ftbnn {

void patch_row__reference(const PatchRow& row) {
  for (int x = 0; x < row.width; ++x) {
    for (int ky = 0; ky < row.kh; ++ky) {
      std::memcpy(row.patches + static_cast<std::size_t>(x) * row.depth + ky * row.run,
                  row.in + ky * row.row_stride + static_cast<std::size_t>(x) * row.step, row.run);
    }
  }
}

void sliced_row__reference(const SlicedRow& row) {
  for (int x = 0; x < row.width; ++x) {
    const std::int8_t* patch = row.patches + static_cast<std::size_t>(x) * row.depth;
    std::uint32_t signs = 0;
    for (int o = 0; o < row.channels; ++o) {
      std::int32_t sum[SLICES] = {};
      for (int s = 0; s < SLICES; ++s) {
        for (int k = 0; k < row.depth; ++k) {
          const int block = (s * (row.depth / 64) + k / 64) * 2 + o / 16;
          sum[s] += patch[k] * row.weights[((block * 16 + k % 64 / 4) * 16 + o % 16) * 4 + k % 4];
        }
      }
      const float acc = 65536.0F * static_cast<float>(sum[2]) + static_cast<float>(256 * sum[1] + sum[0]);
      float y = row.end.scale[o] * acc + row.offset[row.border[x] * PANEL + o];
      if (row.end.shortcut != nullptr) y += row.end.shortcut[x * row.end.shortcut_stride + o];
      y = activate(row.end, o, y);
      if (row.end.out != nullptr) row.end.out[x * row.end.out_stride + o] = y;
      if (y > 0) signs |= std::uint32_t{1} << o;
    }
    if (row.end.codes != nullptr) row.end.codes[x * row.end.codes_stride] = signs;
  }
}

}  // namespace ftbnn
