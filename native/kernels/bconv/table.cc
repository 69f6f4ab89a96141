#include "base/table.h"

#include <algorithm>
#include <cstring>

#include "kernels/bconv/layouts.h"

namespace ftbnn {

extern const TileKernels tiles__amx, tiles__amx_emulated;
extern const PlaneKernels planes__bitalg, planes__avx512, planes__avx2;
extern const WordKernels words__avx512, words__avx2, words__portable;

const Table<BConvKernels>& bconv_table() {
  static const Table<BConvKernels> table = {
#if defined(__x86_64__)
      {"amx", AVX512 | feature::amx_tile | feature::amx_int8, by_tiles<tiles__amx>()},
#if defined(FTBNN_TESTS)
      {"amx_emulated", AVX512 | feature::emulated_tiles, by_tiles<tiles__amx_emulated>()},
#endif
      {"avx512 planes", AVX512 | feature::avx512_bitalg, by_planes<planes__bitalg>()},
      {"avx512", AVX512 | feature::avx512_vpopcntdq, by_words<words__avx512>()},
      {"avx512 tables", AVX512, by_planes<planes__avx512>()},
      {"avx2 nibbles", AVX2, by_words<words__avx2>()},
      {"avx2", AVX2, by_planes<planes__avx2>()},
#endif
      {"portable", PORTABLE, by_words<words__portable>()},
  };
  return table;
}

int same_group(const CodeLayout& layout, int group) {
  const auto runs = [&](int g) -> const std::vector<BitRun>& { return layout.groups[static_cast<std::size_t>(g)]; };
  for (const int other : {0, group - 1, group - static_cast<int>(layout.groups.size()) / 2}) {
    if (other >= 0 && other < group && runs(other) == runs(group)) return other;
  }
  return -1;
}

std::size_t weight_words(const ConvShape& s) {
  const Groups ins = s.ins(), outs = s.outs();
  const auto channels = [&](int g) { return static_cast<std::size_t>(outs.size(g)) * words_of(ins.size(g)); };
  return (static_cast<std::size_t>(s.groups - 1) * channels(0) + channels(s.groups - 1)) *
         static_cast<std::size_t>(s.taps());
}

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

void put_together(const std::uint64_t* from, std::size_t words, int width, std::size_t bytes, std::uint8_t* to) {
  if (words == 1) {
    for (int x = 0; x < width; ++x, to += bytes) std::memcpy(to, from + x, 8);
    return;
  }
  for (int x = 0; x < width; ++x, from += words, to += bytes) {
    for (std::size_t k = 0; k < words; ++k) std::memcpy(to + 8 * k, from + k, 8);
  }
}

}  // namespace ftbnn
