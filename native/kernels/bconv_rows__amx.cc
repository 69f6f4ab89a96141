#include "kernels/bconv_rows__amx.h"

namespace ftbnn {

void expand_rows__amx(const CodeImage& image, int first, int last) {
  const auto words = static_cast<std::size_t>(image.words), lines = plane_lines(image);
  for (int y = first; y < last; ++y) {
    const bool is_inside = y >= image.top && y < image.top + image.height;
    for (std::size_t k = 0; k < words; ++k) {
      const int channels = image.channels - static_cast<int>(64 * k);
      const __mmask64 valid = channels >= 64 ? ~__mmask64{0} : (__mmask64{1} << channels) - 1;
      const __m512i on = _mm512_maskz_set1_epi8(valid, 1);
      const __m512i off = image.zero_one ? _mm512_setzero_si512() : _mm512_maskz_set1_epi8(valid, -1);
      for (int phase = 0; phase < image.stride_x; ++phase) {
        const std::size_t plane = k * word_lines(image) +
                                  static_cast<std::size_t>(y % image.stride_y * image.stride_x + phase) * lines +
                                  static_cast<std::size_t>(y / image.stride_y) * plane_columns(image);
        std::int8_t* to = image.bytes + plane * LINE;
        for (int x = phase; x < image.columns; x += image.stride_x, to += LINE) {
          __m512i line = _mm512_setzero_si512();
          if (is_inside && x >= image.left && x < image.left + image.width) {
            const std::size_t at = static_cast<std::size_t>(y) * static_cast<std::size_t>(image.columns);
            line = _mm512_mask_blend_epi8(image.codes[(at + static_cast<std::size_t>(x)) * words + k], off, on);
          }
          _mm512_store_si512(to, line);
        }
      }
    }
  }
}

void bconv_rows__amx(const BConvRows& rows) { bconv_rows<Tiles>(rows); }

}  // namespace ftbnn
