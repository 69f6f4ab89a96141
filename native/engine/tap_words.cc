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
void merge_windows_3x3(const BConvRow& row, int /*per_word*/, std::uint64_t* to) {
  constexpr int words = (9 + PerWord - 1) / PerWord, bits = 64 / PerWord;
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
  const int most = 64 / channels, words = (taps + most - 1) / most;
  return (taps + words - 1) / words;
}

AlignedArray<std::uint64_t> merge_weights(const AlignedArray<std::uint64_t>& bits, int panels, int taps, int per_word) {
  const auto words = static_cast<std::size_t>((taps + per_word - 1) / per_word);
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
  const auto merge = [&]() -> void (*)(const BConvRow&, int, std::uint64_t*) {
    if (row.kh != 3 || row.kw != 3) return merge_windows;
    switch (per_word) {  // 3x3 taps over 5, 3, 2 words or 1
      case 2:
        return merge_windows_3x3<2>;
      case 3:
        return merge_windows_3x3<3>;
      case 5:
        return merge_windows_3x3<5>;
      default:
        return merge_windows_3x3<9>;
    }
  };
  merge()(row, per_word, windows);
  row.words = (row.kh * row.kw + per_word - 1) / per_word;
  row.in = windows;
  row.kh = row.kw = row.stride = 1;
}

}  // namespace ftbnn
