// Two taps in a word, for binary convolutions whose groups have up to 32 channels.
//
// A word of codes would be half empty, and counting its bits costs the same. So every window becomes one position of
// (taps + 1) / 2 words, tap t in half t % 2 of word t / 2, and the convolution a 1x1 one on those.
#pragma once

#include "engine/plan.h"
#include "kernels/conv_row.h"

namespace ftbnn {

// Weights [panel][tap][PANEL] in halves: [panel][word][PANEL].
AlignedArray<std::uint64_t> pair_weights(const AlignedArray<std::uint64_t>& bits, int panels, int taps);

// The row's windows, in `windows` ([width][(taps + 1) / 2]), and the row changed to read them.
void pair_row(BConvRow& row, std::uint64_t* windows);

}  // namespace ftbnn
