#include "engine/tap_words.h"

#include <algorithm>

namespace ftbnn {

namespace {

void merge_windows(const BConvRow& row, int per_word, std::uint64_t* to) {
  const int taps = row.kh * row.kw, bits = 64 / per_word;
  for (int x = 0; x < row.width; ++x) {
    const std::uint64_t* in = row.in + static_cast<std::size_t>(x) * static_cast<std::size_t>(row.stride);
    for (int first = 0; first < taps; first += per_word) {
      std::uint64_t word = 0;
      for (int t = first; t < std::min(first + per_word, taps); ++t) {
        word |= in[static_cast<std::size_t>(t / row.kw) * row.row_stride + t % row.kw] << (t - first) * bits;
      }
      *to++ = word;
    }
  }
}

// The same for 3x3, where all but the position is known when compiling.
template <int PerWord>
void merge_windows_3x3(const BConvRow& row, std::uint64_t* to) {
  constexpr int words = words_of_taps(9, PerWord), bits = 64 / PerWord;
  const std::uint64_t* rows[3] = {row.in, row.in + row.row_stride, row.in + 2 * row.row_stride};
  for (int x = 0; x < row.width; ++x, to += words) {
    const std::size_t column = static_cast<std::size_t>(x) * static_cast<std::size_t>(row.stride);
#pragma GCC unroll 5
    for (int k = 0; k < words; ++k) {
      std::uint64_t word = 0;
#pragma GCC unroll 9
      for (int t = 0; t < PerWord; ++t) {
        const int tap = k * PerWord + t;
        if (tap < 9) word |= rows[tap / 3][column + tap % 3] << t * bits;
      }
      to[k] = word;
    }
  }
}

}  // namespace

int taps_a_word(int channels, int taps) {
  if (channels > 32) return 1;
  const int words = words_of_taps(taps, 64 / channels);
  return (taps + words - 1) / words;
}

AlignedArray<std::uint64_t> merge_weights(const AlignedArray<std::uint64_t>& bits, int panels, int taps, int per_word) {
  const auto words = static_cast<std::size_t>(words_of_taps(taps, per_word));
  AlignedArray<std::uint64_t> merged(static_cast<std::size_t>(panels) * words * PANEL);
  const std::uint64_t* from = bits.data();
  for (std::size_t panel = 0; panel < static_cast<std::size_t>(panels); ++panel) {
    for (int t = 0; t < taps; ++t, from += PANEL) {
      std::uint64_t* to = merged.data() + (panel * words + static_cast<std::size_t>(t / per_word)) * PANEL;
      for (int o = 0; o < PANEL; ++o) to[o] |= from[o] << t % per_word * (64 / per_word);
    }
  }
  return merged;
}

void merge_row(BConvRow& row, int per_word, std::uint64_t* windows) {
  switch (row.kh == 3 && row.kw == 3 ? per_word : 0) {  // 3x3 taps lie in 5, 3, 2 words or 1
    case 2:
      merge_windows_3x3<2>(row, windows);
      break;
    case 3:
      merge_windows_3x3<3>(row, windows);
      break;
    case 5:
      merge_windows_3x3<5>(row, windows);
      break;
    case 9:
      merge_windows_3x3<9>(row, windows);
      break;
    default:
      merge_windows(row, per_word, windows);
  }
  row.words = words_of_taps(row.kh * row.kw, per_word);
  row.in = windows;
  row.kh = row.kw = row.stride = 1;
}

}  // namespace ftbnn
