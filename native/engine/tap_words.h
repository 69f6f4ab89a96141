// Several taps in a word, for binary convolutions whose groups have up to 32 channels.
//
// A word of codes would be mostly empty, and counting its bits costs the same. So every window becomes one position of
// as few words as hold its bits, tap t in field t % n of word t / n, and the convolution a 1x1 one on those.
#pragma once

#include "engine/plan.h"
#include "kernels/conv_row.h"

namespace ftbnn {

// How many taps of `channels` bits share a word, evenly spread over the words; 1 if each has its own.
int taps_a_word(int channels, int taps);

constexpr int words_of_taps(int taps, int per_word) { return (taps + per_word - 1) / per_word; }

// Weights [panel][tap][PANEL] merged: [panel][word][PANEL].
AlignedArray<std::uint64_t> merge_weights(const AlignedArray<std::uint64_t>& bits, int panels, int taps, int per_word);

// The row's windows, in `windows` ([width][word]), and the row changed to read them.
void merge_row(BConvRow& row, int per_word, std::uint64_t* windows);

}  // namespace ftbnn
