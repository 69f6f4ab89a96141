#include "kernels/sliced_row__amx.h"

namespace ftbnn {

void patch_row__amx(const PatchRow& row) {
  for (int x = 0; x < row.width; ++x) {
    std::int8_t* to = row.patches + static_cast<std::size_t>(x) * row.depth;
    for (int ky = 0; ky < row.kh; ++ky, to += row.run) {
      const std::int8_t* in = row.in + ky * row.row_stride + static_cast<std::size_t>(x) * row.step;
      for (int k = 0; k < row.run; k += 64) {
        const __mmask64 bytes = row.run - k >= 64 ? ~__mmask64{0} : (__mmask64{1} << (row.run - k)) - 1;
        _mm512_mask_storeu_epi8(to + k, bytes, _mm512_maskz_loadu_epi8(bytes, in + k));
      }
    }
  }
}

void sliced_row__amx(const SlicedRow& row) { sliced_row<Tiles>(row); }

}  // namespace ftbnn
