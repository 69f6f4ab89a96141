// Bits of a group's channels, from where the codes of all lie, side by side.
#include <algorithm>
#include <cstring>

#include "kernels/bconv/bconv.h"

namespace ftbnn {

namespace {

// Channels side by side, from any bit on: the words of a position, then those of the next `step` bytes further. Words,
// if not 0, is their number as a constant; Spans: the last one's bits are in two words.
template <int Words, bool Spans>
void gather_words(const std::uint64_t* from, std::size_t from_words, int width, int shift, int words,
                  std::uint64_t mask, std::uint8_t* to, std::size_t step) {
  const int last = (Words != 0 ? Words : words) - 1;
  const auto put = [](std::uint8_t* at, std::uint64_t word) { std::memcpy(at, &word, sizeof word); };
  const auto join = [shift](std::uint64_t low, std::uint64_t high) {
    return low >> shift | high << 1 << (63 - shift);  // of a shift of 0 nothing is the second's
  };
  for (int x = 0; x < width; ++x, from += from_words, to += step) {
    for (int k = 0; k < last; ++k) put(to + 8 * k, join(from[k], from[k + 1]));
    put(to + 8 * last, (Spans ? join(from[last], from[last + 1]) : from[last] >> shift) & mask);
  }
}

void gather_run(const std::uint64_t* from, std::size_t from_words, int width, const BitRun& run, std::uint8_t* to,
                std::size_t step) {
  using Gather = decltype(&gather_words<0, false>);
  static constexpr Gather gathers[2][6] = {{gather_words<0, false>, gather_words<1, false>, gather_words<2, false>,
                                            gather_words<3, false>, gather_words<4, false>, gather_words<5, false>},
                                           {gather_words<0, true>, gather_words<1, true>, gather_words<2, true>,
                                            gather_words<3, true>, gather_words<4, true>, gather_words<5, true>}};
  const int shift = run.first % 64, left = run.count % 64, words = static_cast<int>(words_of(run.count));
  const std::uint64_t mask = left == 0 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
  const bool spans = shift + (left == 0 ? 64 : left) > 64;
  gathers[spans ? 1 : 0][words < 6 ? words : 0](from + run.first / 64, from_words, width, shift, words, mask, to, step);
}

// Bits of a word that become others' neighbours in a word.
struct WordPart {
  std::size_t word;
  int right, left;
  std::uint64_t mask;
  std::uint64_t of(const std::uint64_t* from) const { return (from[word] >> right & mask) << left; }
};

template <int Parts>
void gather_parts(const std::uint64_t* from, std::size_t from_words, int width, const WordPart (&parts)[4],
                  std::uint64_t* to) {
  for (int x = 0; x < width; ++x, from += from_words) {
    std::uint64_t word = parts[0].of(from);
    for (int k = 1; k < Parts; ++k) word |= parts[k].of(from);
    to[x] = word;
  }
}

// A group of one word, in up to four parts; false if it has more.
bool gather_pieces(const std::uint64_t* from, std::size_t from_words, int width, const std::vector<BitRun>& runs,
                   std::uint64_t* to) {
  WordPart parts[4];
  int count = 0, filled = 0;
  for (const BitRun& run : runs) {
    for (int done = 0, bits; done < run.count; done += bits, filled += bits) {
      const int right = (run.first + done) % 64;
      bits = std::min(64 - right, run.count - done);
      if (count == 4) return false;
      const std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
      parts[count++] = {static_cast<std::size_t>(run.first + done) / 64, right, filled, mask};
    }
  }
  switch (count) {
    case 1:
      gather_parts<1>(from, from_words, width, parts, to);
      break;
    case 2:
      gather_parts<2>(from, from_words, width, parts, to);
      break;
    case 3:
      gather_parts<3>(from, from_words, width, parts, to);
      break;
    default:
      gather_parts<4>(from, from_words, width, parts, to);
  }
  return true;
}

// Positions of whole words to positions of `bytes` bytes; what a word has behind those is zero.
void put_together(const std::uint64_t* from, std::size_t words, int width, std::size_t bytes, std::uint8_t* to) {
  if (words == 1) {
    for (int x = 0; x < width; ++x, to += bytes) std::memcpy(to, from + x, 8);
    return;
  }
  for (int x = 0; x < width; ++x, from += words, to += bytes) {
    for (std::size_t k = 0; k < words; ++k) std::memcpy(to + 8 * k, from + k, 8);
  }
}

}  // namespace

void gather_codes(const std::uint64_t* from, std::size_t from_words, int width, const std::vector<BitRun>& runs,
                  std::uint64_t* to, std::size_t words) {
  if (runs.size() == 1) {
    return gather_run(from, from_words, width, runs.front(), reinterpret_cast<std::uint8_t*>(to), 8 * words);
  }
  if (words == 1 && gather_pieces(from, from_words, width, runs, to)) return;
  const auto positions = static_cast<std::size_t>(width);
  std::fill_n(to, positions * words, 0);
  int filled = 0;  // bits
  for (const BitRun& run : runs) {
    for (int done = 0, count; done < run.count; done += count, filled += count) {  // up to a word of each at a time
      const int shift = (run.first + done) % 64, gap = filled % 64;
      count = std::min({64 - shift, 64 - gap, run.count - done});
      const std::uint64_t mask = count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
      const std::uint64_t* source = from + (run.first + done) / 64;
      std::uint64_t* target = to + filled / 64;
      for (std::size_t x = 0; x < positions; ++x) target[x * words] |= (source[x * from_words] >> shift & mask) << gap;
    }
  }
}

void gather_bytes(const std::uint64_t* from, std::size_t from_words, int width, const std::vector<BitRun>& runs,
                  std::uint8_t* to, std::size_t bytes, std::uint64_t* scratch) {
  if (runs.size() == 1) return gather_run(from, from_words, width, runs.front(), to, bytes);
  const std::size_t words = (bytes + 7) / 8;
  gather_codes(from, from_words, width, runs, scratch, words);
  put_together(scratch, words, width, bytes, to);
}

}  // namespace ftbnn
