// The specification of conv_row.h in plain loops; never used for speed.
#include "kernels/conv_row.h"

namespace ftbnn {

namespace {

// `acc` holds the sums of position x, one for each of the first `channels` channels.
void finish(const Epilogue& end, std::size_t x, int channels, const float* acc) {
  std::uint32_t signs = 0;
  for (int o = 0; o < channels; ++o) {
    float y = end.scale[o] * acc[o] + end.shift[o];
    if (end.shortcut != nullptr) y += end.shortcut[x * end.shortcut_stride + o];
    y = activate(end, o, y);
    if (end.out != nullptr) end.out[x * end.out_stride + o] = y;
    if (y > 0) signs |= std::uint32_t{1} << o;
  }
  if (end.codes != nullptr) end.codes[x * end.codes_stride] = signs;
}

int popcount(std::uint64_t word) {
  int count = 0;
  for (; word != 0; word &= word - 1) ++count;
  return count;
}

}  // namespace

void conv_row__reference(const ConvRow& row) {
  for (int x = 0; x < row.width; ++x) {
    float acc[PANEL];
    for (int o = 0; o < row.channels; ++o) {
      acc[o] = 0;
      const float* w = row.weights + o;
      for (int ky = 0; ky < row.kh; ++ky) {
        for (int kx = 0; kx < row.kw; ++kx) {
          const std::size_t column = static_cast<std::size_t>(x) * row.stride + kx;
          const float* in = row.in + ky * row.row_stride + column * row.channels_in;
          for (int c = 0; c < row.channels_in; ++c, w += PANEL) acc[o] += in[c] * *w;
        }
      }
    }
    finish(row.end, x, row.channels, acc);
  }
}

void bconv_row__reference(const BConvRow& row) {
  for (int x = 0; x < row.width; ++x) {
    float acc[PANEL];
    for (int o = 0; o < row.channels; ++o) {
      std::int32_t pop = 0;
      const std::uint64_t* w = row.weights + o;
      for (int ky = 0; ky < row.kh; ++ky) {
        for (int kx = 0; kx < row.kw; ++kx) {
          const std::size_t column = static_cast<std::size_t>(x) * row.stride + kx;
          const std::uint64_t* in = row.in + ky * row.row_stride + column * row.words;
          for (int k = 0; k < row.words; ++k, w += PANEL) pop += popcount(row.zero_one ? in[k] & *w : in[k] ^ *w);
        }
      }
      const std::int32_t sum = row.zero_one ? 2 * pop - row.ones[x] : row.base[row.border[x] * PANEL + o] - 2 * pop;
      acc[o] = static_cast<float>(sum);
    }
    finish(row.end, x, row.channels, acc);
  }
}

}  // namespace ftbnn
