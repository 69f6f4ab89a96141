// Codes as words of 64 bits, weights as [panel][kh][kw][word][PANEL]: a lane is an output channel.
//
// Codes are read where they lie if all channels are one group; else each group's are gathered, with the image's border.
// Groups of up to 32 channels would leave words mostly empty, and counting a word costs the same: their windows become
// one position of as few words as hold their bits, tap t in field t % n of word t / n, and the convolution a 1x1 one.
#include "kernels/bconv/words.h"

#include <algorithm>

#include "base/aligned.h"
#include "kernels/bconv/border.h"
#include "kernels/bconv/layouts.h"

namespace ftbnn {

namespace {

std::size_t z(int value) { return static_cast<std::size_t>(value); }

// How many taps of `channels` bits share a word, evenly spread over the words; 1 if each has its own.
int taps_a_word(int channels, int taps) {
  if (channels > 32) return 1;
  const int words = (taps + 64 / channels - 1) / (64 / channels);
  return (taps + words - 1) / words;
}

// The rows of a window, and counts of their columns.
std::size_t words_scratch(const BConvShape& s) {
  const std::size_t rows = z(s.kh) * z(s.columns()) * words_of(s.ins().largest()) * sizeof(std::uint64_t);
  return round_up(rows + z(s.columns()) * sizeof(std::int32_t), CACHE_LINE);
}

// One group as the loops see it.
struct Group {
  int in, words;           // channels; words of a position, or of a window where taps share words
  std::size_t codes_at;    // words from the start of the arranged memory
  std::size_t windows_at;  // where taps share words: likewise of the windows
  bool is_copy;            // an earlier group has the same runs, and so the same places
  std::size_t ones_at;     // numbers from the start of the ones
};

struct PanelPlan {
  Panel panel;
  std::size_t weights_at, base_at;
};

class WordsBConv final : public BConv {
 public:
  WordsBConv(const BConvShape& shape, const CodeLayout& layout, WeightWords weights, const WordKernels& kernels)
      : s_(shape), layout_(layout), kernels_(kernels), per_word_(taps_a_word(shape.ins().largest(), shape.taps())) {
    place_codes();
    lay_out(weights);
  }

  std::size_t arranged_bytes() const override {
    return arranged_words_ * sizeof(std::uint64_t) + ones_ * sizeof(std::int32_t);
  }
  std::size_t scratch_bytes() const override { return words_scratch(s_); }
  bool arranges() const override { return !is_in_place_ || merges() || s_.zero_one; }

  void arrange(int first, int last, const Codes& codes, void* arranged, void* scratch) const override {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].is_copy) continue;
      if (merges()) {
        merge_windows(g, first, last, codes, arranged, scratch);
        continue;
      }
      if (!is_in_place_) {
        for (int row = std::min(first * s_.sh, s_.rows()); row < own_rows(last); ++row) {
          gather_row(g, row, codes, words_at(arranged) + groups_[g].codes_at + z(row) * line_words(g));
        }
      }
      if (s_.zero_one) count_ones(g, first, last, codes, arranged, scratch);
    }
  }

  void run(const BConvCall& call) const override {
    const PanelPlan& plan = panels_[z(call.panel)];
    const Group& group = groups_[z(plan.panel.group)];
    BConvRow row{};
    row.words = group.words;
    row.kh = merges() ? 1 : s_.kh;
    row.kw = merges() ? 1 : s_.kw;
    row.stride = merges() ? 1 : s_.sw;
    row.width = s_.ow;
    row.channels = plan.panel.channels;
    row.zero_one = s_.zero_one;
    row.border = columns_.of.data();
    row.weights = weights_.data() + plan.weights_at;
    for (int image = 0; image < call.images; ++image) {
      const void* arranged = static_cast<const char*>(call.arranged) + z(image) * call.arranged_image;
      const Place place = place_of(group, call.codes, arranged);
      row.row_stride = place.row;
      row.end = call.end;
      if (row.end.out != nullptr) row.end.out += z(image) * call.out_image;
      for (int y = call.first; y < call.last; ++y, next_row(row.end)) {
        row.in = place.at + z(merges() ? y : y * s_.sh) * place.row;
        if (s_.zero_one) {
          row.ones = ones_of(arranged) + group.ones_at + z(y) * z(s_.ow);
        } else {
          row.base = bases_.data() + plan.base_at + z(rows_.of[z(y)]) * columns_.count() * PANEL;
        }
        kernels_.row(row);
      }
    }
  }

 private:
  // Where the first tap of output row 0 is, and from one row to the next.
  struct Place {
    const std::uint64_t* at;
    std::size_t row;
  };

  bool merges() const { return per_word_ > 1; }
  // Where the rows end that a piece up to output row `last` arranges.
  int own_rows(int last) const { return last == s_.oh ? s_.rows() : std::min(last * s_.sh, s_.rows()); }
  std::size_t line_words(std::size_t g) const { return z(s_.columns()) * words_of(groups_[g].in); }
  static std::uint64_t* words_at(void* arranged) { return static_cast<std::uint64_t*>(arranged); }

  std::int32_t* ones_of(void* arranged) const {
    return reinterpret_cast<std::int32_t*>(static_cast<std::uint64_t*>(arranged) + arranged_words_);
  }
  const std::int32_t* ones_of(const void* arranged) const { return ones_of(const_cast<void*>(arranged)); }

  Place place_of(const Group& group, const Codes& codes, const void* arranged) const {
    const auto* words = static_cast<const std::uint64_t*>(arranged);
    if (merges()) return {words + group.windows_at, z(s_.ow) * z(group.words)};
    if (is_in_place_) return {corner(codes), codes.row};
    return {words + group.codes_at, z(s_.columns()) * z(group.words)};
  }

  // The first tap of the first output, where codes are read in place.
  const std::uint64_t* corner(const Codes& codes) const {
    return codes.at - z(s_.ph) * codes.row - z(s_.pw) * layout_.words;
  }

  void place_codes() {
    const Groups ins = s_.ins();
    constexpr std::size_t line = CACHE_LINE / sizeof(std::uint64_t);
    const int window_words = (s_.taps() + per_word_ - 1) / per_word_;
    const std::vector<BitRun> all = {{0, layout_.bits}};
    is_in_place_ = layout_.has_border && s_.groups == 1 && layout_.groups[0] == all && words_of(s_.in) == layout_.words;
    for (int g = 0; g < s_.groups; ++g) {
      const std::size_t words = words_of(ins.size(g));
      Group group{ins.size(g), merges() ? window_words : static_cast<int>(words), arranged_words_, 0, false, ones_};
      const auto& runs = layout_.groups[z(g)];
      // Only neighbours and the first can be the same: x beside itself, in whatever number of groups.
      for (const int other : {0, g - 1, g - s_.groups / 2}) {
        if (group.is_copy || other < 0 || other >= g || !(layout_.groups[z(other)] == runs)) continue;
        group.is_copy = true;
        group.codes_at = groups_[z(other)].codes_at;
        group.windows_at = groups_[z(other)].windows_at;
        group.ones_at = groups_[z(other)].ones_at;
      }
      if (!group.is_copy) {
        const std::size_t planes = is_in_place_ || merges() ? 0 : z(s_.rows()) * z(s_.columns()) * words;
        const std::size_t windows = merges() ? s_.positions() * z(group.words) : 0;
        group.windows_at = arranged_words_;
        arranged_words_ += round_up(planes + windows, line);
        if (s_.zero_one) ones_ += s_.positions();
      }
      groups_.push_back(group);
    }
  }

  void lay_out(WeightWords from) {
    rows_ = BorderClasses(s_.oh, s_.sh, s_.kh, s_.ph, s_.h);
    columns_ = BorderClasses(s_.ow, s_.sw, s_.kw, s_.pw, s_.w);
    const std::size_t classes = rows_.count() * columns_.count();
    std::size_t weights = 0, bases = 0, widest = 0;
    for (const Panel& panel : panels_of(s_.outs())) {
      panels_.push_back({panel, weights, bases});
      const Group& group = groups_[z(panel.group)];
      weights += z(merges() ? 1 : s_.taps()) * z(group.words) * PANEL;
      bases += s_.zero_one ? 0 : classes * PANEL;
      widest = std::max(widest, words_of(group.in));
    }
    weights_ = AlignedArray<std::uint64_t>(weights);
    bases_ = AlignedArray<std::int32_t>(bases);
    AlignedArray<std::uint64_t> plain(z(s_.taps()) * widest * PANEL);  // [tap][word][PANEL] of one panel
    for (const PanelPlan& plan : panels_) {
      const Group& group = groups_[z(plan.panel.group)];
      const std::size_t size = z(s_.taps()) * words_of(group.in);
      std::fill_n(plain.data(), size * PANEL, 0);
      for (int o = 0; o < plan.panel.channels; ++o, from += size) {
        for (std::size_t k = 0; k < size; ++k) plain[k * PANEL + z(o)] = from[k];
      }
      std::uint64_t* to = weights_.data() + plan.weights_at;
      if (merges()) {
        for (int t = 0; t < s_.taps(); ++t) {
          for (int o = 0; o < PANEL; ++o) {
            to[z(t / per_word_) * PANEL + z(o)] |= plain[z(t) * PANEL + z(o)] << t % per_word_ * (64 / per_word_);
          }
        }
      } else {
        std::copy_n(plain.data(), size * PANEL, to);
      }
      if (!s_.zero_one) {
        border_bases(plain.data(), group.in, s_.kh, s_.kw, rows_.kinds, columns_.kinds, bases_.data() + plan.base_at);
      }
    }
  }

  // A row of a group's image with its border.
  void gather_row(std::size_t g, int row, const Codes& codes, std::uint64_t* to) const {
    const int line = row - s_.ph;
    const std::size_t words = words_of(groups_[g].in), left = z(s_.pw) * words, inside = z(s_.w) * words;
    if (line < 0 || line >= s_.h) {
      std::fill_n(to, line_words(g), 0);
      return;
    }
    std::fill_n(to, left, 0);
    gather_codes(codes.at + z(line) * codes.row, layout_.words, s_.w, layout_.groups[g], to + left, words);
    std::fill_n(to + left + inside, line_words(g) - left - inside, 0);
  }

  // Rows y * sh and on, of as many as a window has, in scratch: those that stay from the row before are moved up.
  const std::uint64_t* gather_window(std::size_t g, int y, bool is_first, const Codes& codes, void* scratch) const {
    auto* rows = static_cast<std::uint64_t*>(scratch);
    const std::size_t line = line_words(g);
    const int stay = is_first ? 0 : std::max(0, s_.kh - s_.sh);
    if (stay > 0) std::copy_n(rows + z(s_.sh) * line, z(stay) * line, rows);
    for (int k = stay; k < s_.kh; ++k) gather_row(g, y * s_.sh + k, codes, rows + z(k) * line);
    return rows;
  }

  // The windows of output rows, and the ones in each.
  void merge_windows(std::size_t g, int first, int last, const Codes& codes, void* arranged, void* scratch) const {
    const Group& group = groups_[g];
    const std::size_t columns = is_in_place_ ? codes.row : z(s_.columns());
    for (int y = first; y < last; ++y) {
      const std::uint64_t* from =
          is_in_place_ ? corner(codes) + z(y * s_.sh) * codes.row : gather_window(g, y, y == first, codes, scratch);
      std::uint64_t* to = words_at(arranged) + group.windows_at + z(y) * z(s_.ow) * z(group.words);
      switch (s_.kh == 3 && s_.kw == 3 ? per_word_ : 0) {  // 3x3 taps lie in 5, 3, 2 words or 1
        case 2:
          merge_3x3<2>(from, columns, to);
          break;
        case 3:
          merge_3x3<3>(from, columns, to);
          break;
        case 5:
          merge_3x3<5>(from, columns, to);
          break;
        case 9:
          merge_3x3<9>(from, columns, to);
          break;
        default:
          merge(from, columns, group.words, to);
      }
      if (!s_.zero_one) continue;
      OnesRow row{to, 0, group.words, 1, 1, 1, s_.ow, ones_columns(scratch), nullptr};
      row.ones = ones_of(arranged) + group.ones_at + z(y) * z(s_.ow);
      kernels_.ones(row);
    }
  }

  void merge(const std::uint64_t* from, std::size_t columns, int words, std::uint64_t* to) const {
    const int bits = 64 / per_word_;
    for (int x = 0; x < s_.ow; ++x, to += words) {
      std::fill_n(to, words, 0);
      for (int t = 0; t < s_.taps(); ++t) {
        const std::uint64_t tap = from[z(t / s_.kw) * columns + z(x * s_.sw + t % s_.kw)];
        to[t / per_word_] |= tap << t % per_word_ * bits;
      }
    }
  }

  // The same for 3x3, where all but the position is known when compiling.
  template <int PerWord>
  void merge_3x3(const std::uint64_t* from, std::size_t columns, std::uint64_t* to) const {
    constexpr int words = (9 + PerWord - 1) / PerWord, bits = 64 / PerWord;
    const std::uint64_t* rows[3] = {from, from + columns, from + 2 * columns};
    for (int x = 0; x < s_.ow; ++x, to += words) {
      const std::size_t column = z(x * s_.sw);
#pragma GCC unroll 5
      for (int k = 0; k < words; ++k) {
        std::uint64_t word = 0;
#pragma GCC unroll 9
        for (int t = 0; t < PerWord; ++t) {
          const int tap = k * PerWord + t;
          if (tap < 9) word |= rows[tap / 3][column + z(tap % 3)] << t * bits;
        }
        to[k] = word;
      }
    }
  }

  void count_ones(std::size_t g, int first, int last, const Codes& codes, void* arranged, void* scratch) const {
    const Group& group = groups_[g];
    OnesRow row{nullptr, line_words(g), group.words, s_.kh, s_.kw, s_.sw, s_.ow, ones_columns(scratch), nullptr};
    if (is_in_place_) row.row_stride = codes.row;
    const Place place = place_of(group, codes, arranged);
    for (int y = first; y < last; ++y) {
      // Rows below are another piece's: it may not have come to them yet.
      const bool is_there = is_in_place_ || y * s_.sh + s_.kh <= own_rows(last);
      row.in = is_there ? place.at + z(y * s_.sh) * place.row : gather_window(g, y, true, codes, scratch);
      row.ones = ones_of(arranged) + group.ones_at + z(y) * z(s_.ow);
      kernels_.ones(row);
    }
  }

  // Behind the rows of a window.
  std::int32_t* ones_columns(void* scratch) const {
    return reinterpret_cast<std::int32_t*>(static_cast<char*>(scratch) + words_scratch(s_)) - s_.columns();
  }

  const BConvShape s_;
  const CodeLayout layout_;
  const WordKernels& kernels_;
  const int per_word_;  // taps
  bool is_in_place_ = false;
  std::vector<Group> groups_;
  std::vector<PanelPlan> panels_;
  std::size_t arranged_words_ = 0, ones_ = 0;
  AlignedArray<std::uint64_t> weights_;
  BorderClasses rows_, columns_;
  AlignedArray<std::int32_t> bases_;  // [panel][row class][column class][PANEL]
};

}  // namespace

Sizes words_sizes(const BConvShape& s) {
  const int per_word = taps_a_word(s.ins().largest(), s.taps());
  const bool merges = per_word > 1;
  const std::uint64_t own = words_of(s.ins().largest()), windows = z((s.taps() + per_word - 1) / per_word);
  // Classes of rows: those that hang over the top and over the bottom, and those that do not.
  const auto classes = [](int out, int kernel) { return static_cast<std::uint64_t>(std::min(out, 2 * kernel + 1)); };
  const std::uint64_t bases = s.zero_one ? 0 : classes(s.oh, s.kh) * classes(s.ow, s.kw) * sizeof(std::int32_t);
  const std::uint64_t weights = (merges ? windows : z(s.taps()) * own) * sizeof(std::uint64_t);
  const std::uint64_t codes = (merges ? s.positions() * windows : s.border_positions() * own) + CACHE_LINE;
  const std::uint64_t ones = s.zero_one ? z(s.groups) * s.positions() : 0;
  return {panel_count(s.outs()) * PANEL * (weights + bases),
          z(s.groups) * codes * sizeof(std::uint64_t) + ones * sizeof(std::int32_t), words_scratch(s)};
}

std::unique_ptr<BConv> make_by_words(const BConvShape& shape, const CodeLayout& layout, WeightWords weights,
                                     const WordKernels& kernels) {
  return std::make_unique<WordsBConv>(shape, layout, weights, kernels);
}

}  // namespace ftbnn
