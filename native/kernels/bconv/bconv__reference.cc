// The specification of bconv_rows.h in plain loops; never used for speed.
#include "kernels/bconv_rows.h"

namespace ftbnn {

void bconv_row__reference(const BConvRow&);

namespace {

int bit(std::uint64_t word, int n) { return static_cast<int>(word >> n & 1U); }

// The code of channel c at a position of the image with its border.
int code(const CodeImage& image, int y, int x, int c) {
  const bool is_inside = y >= image.top && y < image.top + image.height && x >= image.left &&
                         x < image.left + image.width && c < image.channels;
  if (!is_inside) return 0;
  const std::size_t position =
      static_cast<std::size_t>(y) * static_cast<std::size_t>(image.columns) + static_cast<std::size_t>(x);
  const int value =
      bit(image.codes[position * static_cast<std::size_t>(image.words) + static_cast<std::size_t>(c / 64)], c % 64);
  return image.zero_one ? value : 2 * value - 1;
}

}  // namespace

void expand_rows__reference(const CodeImage& image, int first, int last) {
  for (int y = first; y < last; ++y) {
    for (int x = 0; x < image.columns; ++x) {
      for (int c = 0; c < 64 * image.words; ++c) {
        const auto plane = static_cast<std::size_t>(y % image.stride_y * image.stride_x + x % image.stride_x);
        const std::size_t line = static_cast<std::size_t>(c / 64) * word_lines(image) + plane * plane_lines(image) +
                                 static_cast<std::size_t>(y / image.stride_y) * plane_columns(image) +
                                 static_cast<std::size_t>(x / image.stride_x);
        image.bytes[line * LINE + static_cast<std::size_t>(c % 64)] = static_cast<std::int8_t>(code(image, y, x, c));
      }
    }
  }
}

// Straight from the bits. The epilogue is the row kernel's, on a window of one word that holds no ones.
void bconv_rows__reference(const BConvRows& rows) {
  const CodeImage& image = rows.image;
  const std::uint64_t nothing[PANEL] = {};
  const std::uint8_t border = 0;
  for (int y = rows.first; y < rows.last; ++y) {
    const auto row = static_cast<std::size_t>(y - rows.first);
    for (int x = 0; x < rows.width; ++x) {
      std::int32_t sums[PANEL] = {};
      for (int o = 0; o < rows.channels; ++o) {
        const std::uint64_t* weights = rows.weights + o;
        for (int ky = 0; ky < rows.kh; ++ky) {
          for (int kx = 0; kx < rows.kw; ++kx) {
            for (int c = 0; c < 64 * image.words; ++c) {
              const int sign = 2 * bit(weights[c / 64 * PANEL], c % 64) - 1;
              sums[o] += sign * code(image, y * image.stride_y + ky, x * image.stride_x + kx, c);
            }
            weights += image.words * PANEL;
          }
        }
      }
      BConvRow position = {nothing, 0, nothing, 1, 1, 1, 1, 1, rows.channels, false, sums, &border, nullptr, rows.end};
      Epilogue& end = position.end;
      const auto column = static_cast<std::size_t>(x);
      if (end.shortcut != nullptr) end.shortcut += row * rows.shortcut_row + column * end.shortcut_stride;
      if (end.out != nullptr) end.out += row * rows.out_row + column * end.out_stride;
      if (end.codes != nullptr) end.codes += row * rows.codes_row + column * end.codes_stride;
      bconv_row__reference(position);
    }
  }
}

}  // namespace ftbnn
