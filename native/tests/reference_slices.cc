#include <cstring>

#include "kernels/stem/layouts.h"
#include "tests/reference.h"

namespace ftbnn {

namespace {

void patches(const PatchRow& row) {
  for (int x = 0; x < row.width; ++x) {
    for (int ky = 0; ky < row.kh; ++ky) {
      std::memcpy(row.patches + static_cast<std::size_t>(x) * row.depth + ky * row.run,
                  row.in + ky * row.row_stride + static_cast<std::size_t>(x) * row.step, row.run);
    }
  }
}

void sliced_row(const SlicedRow& row) {
  for (int x = 0; x < row.width; ++x) {
    const std::int8_t* patch = row.patches + static_cast<std::size_t>(x) * row.depth;
    float acc[PANEL];
    for (int o = 0; o < row.channels; ++o) {
      std::int32_t sum[SLICES] = {};
      for (int s = 0; s < SLICES; ++s) {
        for (int k = 0; k < row.depth; ++k) {
          const int block = (s * (row.depth / 64) + k / 64) * 2 + o / 16;
          sum[s] += patch[k] * row.weights[((block * 16 + k % 64 / 4) * 16 + o % 16) * 4 + k % 4];
        }
      }
      acc[o] = 65536.0F * static_cast<float>(sum[2]) + static_cast<float>(256 * sum[1] + sum[0]);
    }
    Epilogue end = row.end;
    end.shift = row.offset + row.border[x] * PANEL;
    reference_finish(end, static_cast<std::size_t>(x), row.channels, acc);
  }
}

}  // namespace

extern const SliceKernels slices__reference;
const SliceKernels slices__reference = {patches, sliced_row};

StemKernels reference_slices() { return by_slices<slices__reference>(); }

}  // namespace ftbnn
