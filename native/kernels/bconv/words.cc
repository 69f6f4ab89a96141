// Runs of words, weights as [panel][kh][run][PANEL]: a lane is an output channel. (Where a panel has channels of the
// last group, which may be larger than the others, that has weights of its own.)
//
// Codes are read where they lie if all channels are one group that fills its words. Else each group's are gathered into
// rows of its own, with the image's border, a position as few bytes as hold its bits: so that few bits of a run are
// nobody's, for counting a word costs the same however full.
#include "kernels/bconv/words.h"

#include <algorithm>
#include <cstring>

#include "base/aligned.h"
#include "kernels/bconv/border.h"
#include "kernels/bconv/layouts.h"

namespace ftbnn {

namespace {

constexpr std::size_t WORD = sizeof(std::uint64_t);

std::size_t z(int value) { return static_cast<std::size_t>(value); }

bool has_nibbles(const WordKernels& kernels) { return kernels.word == 1; }

// A position's bytes, and a run's words, where `bits` are a position's.
std::size_t bytes_of(int bits, const WordKernels& kernels) {
  const int of_a_byte = has_nibbles(kernels) ? 4 : 8;
  return z(bits + of_a_byte - 1) / z(of_a_byte);
}
std::size_t run_of(int kw, std::size_t bytes, std::size_t word) { return (z(kw) * bytes + word - 1) / word; }

// Bytes of a gathered row: reads go up to a word past its end.
std::size_t line_bytes(const BConvShape& s, std::size_t position) {
  return round_up((z(s.columns()) * position + WORD), WORD);
}

// In place a run has whole words for each tap; bringing bits together must be worth the work.
bool is_worth_gathering(const BConvShape& s, const WordKernels& kernels) {
  return has_nibbles(kernels) || 20 * run_of(s.kw, bytes_of(s.in, kernels), WORD) <= 19 * z(s.kw) * words_of(s.in);
}

// A row of words as it is gathered, or where the words of two windows are.
std::size_t words_scratch(const BConvShape& s, const WordKernels& kernels) {
  const std::size_t row = z(s.columns()) * words_of(s.ins().largest()) * WORD;
  const std::size_t in_place = words_of(s.ins().largest()) * WORD;
  const std::size_t run = run_of(s.kw, std::max(in_place, bytes_of(s.ins().largest(), kernels)), kernels.word);
  return round_up(std::max(row, 2 * z(s.kh) * run * sizeof(std::uint32_t)), CACHE_LINE);
}

struct Piece : PanelPart {
  std::size_t weights_at;  // bytes
};

struct PanelPlan {
  int channels;
  std::vector<Piece> pieces;
  std::size_t base_at;
};

std::vector<PanelPlan> plan_panels(const BConvShape& s) {
  std::vector<PanelPlan> plans;
  for (const Panel& panel : panels_of(Groups{s.out, 1})) {
    PanelPlan plan{panel.channels, {}, 0};
    for (const PanelPart& part : parts_of(panel, s.outs())) plan.pieces.push_back({part, 0});
    plans.push_back(std::move(plan));
  }
  return plans;
}

// One group as the loops see it.
struct Group {
  int in;                // channels
  std::size_t bytes;     // of a position
  std::size_t run;       // words
  std::uint64_t mask;    // of a run's last word, if others' bits are behind the window's; else 0
  std::size_t codes_at;  // bytes from the start of the arranged memory
  bool is_copy;          // an earlier group has the same bits, and so the same place
};

class WordsBConv final : public BConv {
 public:
  WordsBConv(const BConvShape& shape, const CodeLayout& layout, WeightWords weights, const WordKernels& kernels)
      : s_(shape), layout_(layout), kernels_(kernels), borders_(shape), panels_(plan_panels(shape)) {
    const std::vector<BitRun> all = {{0, layout_.bits}};
    is_in_place_ = layout_.has_border && s_.groups == 1 && layout_.groups[0] == all &&
                   words_of(s_.in) == layout_.words && !is_worth_gathering(s_, kernels_);
    place_codes();
    lay_out(weights);
  }

  std::size_t arranged_bytes() const override { return arranged_; }
  std::size_t scratch_bytes() const override { return words_scratch(s_, kernels_); }
  int panels_at_once() const override { return kernels_.panels_at_once; }
  bool arranges() const override { return !is_in_place_; }

  void arrange(int first, int last, const Codes& codes, void* arranged, void* scratch) const override {
    if (is_in_place_) return;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].is_copy) continue;
      auto* to = static_cast<std::uint8_t*>(arranged);
      auto* gathered = static_cast<std::uint64_t*>(scratch);
      for (int row = first * s_.sh; row < s_.end_row(last); ++row) make_line(g, row, codes, to, gathered);
    }
  }

  void run(const BConvCall& call) const override {
    // Where words are: of a group other than the last, and of the last, which may be larger.
    auto* offsets = static_cast<std::uint32_t*>(call.scratch);
    const int one = panels_[z(call.panel)].pieces.front().group;
    const int other = panels_[z(call.panel + call.panels - 1)].pieces.back().group;
    for (int g = one; g <= other; g += std::max(1, other - one)) {
      const Group& group = groups_[z(g)];
      find_words(group, row_bytes(g, call), offsets + (g + 1 == s_.groups ? z(s_.kh) * groups_.front().run : 0));
    }
    WordPiece pieces[MOST_PANELS][PANEL];
    BConvRows rows[MOST_PANELS];
    for (int image = 0; image < call.images; ++image) {
      const auto* arranged = static_cast<const std::uint8_t*>(call.arranged) + z(image) * call.arranged_image;
      for (int n = 0; n < call.panels; ++n) {
        const PanelPlan& plan = panels_[z(call.panel + n)];
        for (std::size_t k = 0; k < plan.pieces.size(); ++k) pieces[n][k] = piece_of(plan.pieces[k], call, arranged);
        rows[n] = rows_of(plan, call);
        rows[n].pieces = pieces[n];
        rows[n].end = of_panel(call.end, n);
        if (rows[n].end.out != nullptr) rows[n].end.out += z(image) * call.out_image;
      }
      kernels_.rows(rows, call.panels);
    }
  }

 private:
  BConvRows rows_of(const PanelPlan& plan, const BConvCall& call) const {
    BConvRows rows{};
    rows.count = static_cast<int>(plan.pieces.size());
    rows.rows = call.last - call.first;
    rows.width = s_.ow;
    rows.channels = plan.channels;
    rows.worth = borders_.worth;
    rows.base = bases_.data() + plan.base_at;
    rows.row_base = borders_.columns.count() * PANEL;
    rows.row_border = borders_.rows.of.data() + call.first;
    rows.column_border = borders_.columns.of.data();
    return rows;
  }

  // From one row of a group's codes to the next.
  std::size_t row_bytes(int group, const BConvCall& call) const {
    return is_in_place_ ? call.codes.row * WORD : line_bytes(s_, groups_[z(group)].bytes);
  }

  // Where word k of row ky is among those of a window: those with a mask are the last.
  std::size_t number_of(const Group& group, std::size_t ky, std::size_t k) const {
    if (group.mask == 0) return ky * group.run + k;
    return k + 1 < group.run ? ky * (group.run - 1) + k : z(s_.kh) * (group.run - 1) + ky;
  }

  // The same as bytes from the first word on.
  void find_words(const Group& group, std::size_t row_bytes, std::uint32_t* offsets) const {
    const std::size_t whole = group.mask == 0 ? group.run : group.run - 1;
    for (std::size_t ky = 0; ky < z(s_.kh); ++ky) {
      for (std::size_t k = 0; k < whole; ++k)
        *offsets++ = static_cast<std::uint32_t>(ky * row_bytes + k * kernels_.word);
    }
    for (std::size_t ky = 0; whole < group.run && ky < z(s_.kh); ++ky) {
      *offsets++ = static_cast<std::uint32_t>(ky * row_bytes + whole * kernels_.word);
    }
  }

  // A piece of output row call.first.
  WordPiece piece_of(const Piece& piece, const BConvCall& call, const std::uint8_t* arranged) const {
    const Group& group = groups_[z(piece.group)];
    WordPiece to{};
    to.first = piece.first;
    to.last = piece.last;
    to.in = is_in_place_ ? reinterpret_cast<const std::uint8_t*>(corner(call.codes)) : arranged + group.codes_at;
    to.in += z(call.first) * z(s_.sh) * row_bytes(piece.group, call);
    to.cut = group.mask != 0 ? s_.kh : 0;
    to.whole = s_.kh * static_cast<int>(group.run) - to.cut;
    to.mask = group.mask;
    to.offsets = static_cast<const std::uint32_t*>(call.scratch);
    if (piece.group + 1 == s_.groups) to.offsets += z(s_.kh) * groups_.front().run;
    to.step = z(s_.sw) * group.bytes;
    to.row_step = z(s_.sh) * row_bytes(piece.group, call);
    to.weights = weights_.data() + piece.weights_at;
    return to;
  }

  // The first tap of the first output, where codes are read in place.
  const std::uint64_t* corner(const Codes& codes) const {
    return codes.at - z(s_.ph) * codes.row - z(s_.pw) * layout_.words;
  }

  std::size_t position_bytes(int group) const {
    return is_in_place_ ? WORD * layout_.words : bytes_of(s_.ins().size(group), kernels_);
  }

  void place_codes() {
    const Groups ins = s_.ins();
    for (int g = 0; g < s_.groups; ++g) {
      const std::size_t bytes = position_bytes(g), run = run_of(s_.kw, bytes, kernels_.word);
      const std::size_t left = 8 * (z(s_.kw) * bytes % kernels_.word);  // bits of a run's last word
      const std::uint64_t mask = left == 0 ? 0 : (std::uint64_t{1} << left) - 1;
      Group group{ins.size(g), bytes, run, mask, arranged_, false};
      if (const int other = same_group(layout_, g); other >= 0) {
        group.is_copy = true;
        group.codes_at = groups_[z(other)].codes_at;
      }
      if (!group.is_copy && !is_in_place_) {
        arranged_ += round_up(z(s_.rows()) * line_bytes(s_, group.bytes), CACHE_LINE);
      }
      groups_.push_back(group);
    }
  }

  void lay_out(WeightWords from) {
    const std::size_t classes = borders_.classes();
    std::size_t weights = 0, bases = 0;
    for (PanelPlan& plan : panels_) {
      plan.base_at = bases;
      bases += classes * PANEL;
      for (std::size_t k = 0; k < plan.pieces.size(); ++k) {
        Piece& piece = plan.pieces[k];
        const Group& group = groups_[z(piece.group)];
        if (k > 0 && group.bytes == groups_[z(plan.pieces[k - 1].group)].bytes) {
          piece.weights_at = plan.pieces[k - 1].weights_at;
          continue;
        }
        piece.weights_at = weights;
        weights += z(s_.kh) * group.run * PANEL * kernels_.word;
      }
    }
    weights_ = AlignedArray<std::uint8_t>(weights);
    bases_ = AlignedArray<float>(bases);
    std::vector<std::uint64_t> plain(z(s_.taps()) * words_of(s_.ins().largest()) * PANEL);  // of a piece
    std::vector<std::int32_t> whole(classes * PANEL);
    for (const PanelPlan& plan : panels_) {
      for (const Piece& piece : plan.pieces) {
        const Group& group = groups_[z(piece.group)];
        const std::size_t size = z(s_.taps()) * words_of(group.in);
        std::fill_n(plain.data(), size * PANEL, 0);  // [tap][word][PANEL]
        for (int o = piece.first; o < piece.last; ++o, from += size) {
          for (std::size_t k = 0; k < size; ++k) plain[k * PANEL + z(o)] = from[k];
        }
        join_taps(plain.data(), group, weights_.data() + piece.weights_at);
        borders_.find_bases(plain.data(), group.in, whole.data());
        for (std::size_t k = 0; k < classes; ++k) {
          std::copy(whole.data() + k * PANEL + piece.first, whole.data() + k * PANEL + piece.last,
                    bases_.data() + plan.base_at + k * PANEL + piece.first);
        }
      }
    }
  }

  // Weights [kh][kw][word of 64 bits] as the codes of runs lie, [kh][run].
  void join_taps(const std::uint64_t* plain, const Group& group, std::uint8_t* to) const {
    if (has_nibbles(kernels_)) return split_taps(plain, group, to);
    kernels_.word == WORD ? join_taps<std::uint64_t>(plain, group, to) : join_taps<std::uint32_t>(plain, group, to);
  }

  // The same as nibbles.
  void split_taps(const std::uint64_t* plain, const Group& group, std::uint8_t* to) const {
    for (int t = 0; t < s_.taps(); ++t, plain += words_of(group.in) * PANEL) {
      for (std::size_t k = 0; k < group.bytes; ++k, to += PANEL) {
        const std::uint64_t* words = plain + k / 16 * PANEL;
        const std::size_t shift = 4 * (k % 16);
        for (std::size_t o = 0; o < PANEL; ++o) to[o] |= static_cast<std::uint8_t>(words[o] >> shift & 15U);
      }
    }
  }

  template <typename Word>
  void join_taps(const std::uint64_t* plain, const Group& group, std::uint8_t* to) const {
    constexpr std::size_t bits = 8 * sizeof(Word);
    const std::size_t words = words_of(group.in);
    auto* joined = reinterpret_cast<Word*>(to);
    for (int t = 0; t < s_.taps(); ++t) {
      const std::size_t start = 8 * z(t % s_.kw) * group.bytes, end = start + 8 * group.bytes;
      for (std::size_t k = 0; k < words; ++k) {
        const std::uint64_t* row = plain + (z(t) * words + k) * PANEL;
        // A word of a tap lies in up to three words of its run.
        const std::size_t first = start + 64 * k, last = std::min(first + 64, end);
        for (std::size_t word = first / bits; word * bits < last; ++word) {
          Word* here = joined + number_of(group, z(t / s_.kw), word) * PANEL;
          const std::size_t at = word * bits;
          for (std::size_t o = 0; o < PANEL; ++o) {
            here[o] |= static_cast<Word>(at < first ? row[o] << (first - at) : row[o] >> (at - first));
          }
        }
      }
    }
  }

  // A row of a group's image with its border.
  void make_line(std::size_t g, int row, const Codes& codes, std::uint8_t* arranged, std::uint64_t* gathered) const {
    const Group& group = groups_[g];
    const int line = row - s_.ph;
    std::uint8_t* to = arranged + group.codes_at + z(row) * line_bytes(s_, group.bytes);
    std::fill_n(to, line_bytes(s_, group.bytes), 0);
    if (line < 0 || line >= s_.h) return;
    to += z(s_.pw) * group.bytes;
    const std::uint64_t* from = codes.at + z(line) * codes.row;
    if (has_nibbles(kernels_)) {
      const std::size_t words = words_of(group.in);
      gather_codes(from, layout_.words, s_.w, layout_.groups[g], gathered, words);
      kernels_.split(gathered, words, s_.w, to, group.bytes);
    } else {
      gather_bytes(from, layout_.words, s_.w, layout_.groups[g], to, group.bytes, gathered);
    }
  }

  const BConvShape s_;
  const CodeLayout layout_;
  const WordKernels& kernels_;
  const Borders borders_;
  std::vector<PanelPlan> panels_;
  bool is_in_place_ = false;
  std::vector<Group> groups_;
  std::size_t arranged_ = 0;  // bytes
  AlignedArray<std::uint8_t> weights_;
  AlignedArray<float> bases_;  // [panel][row class][column class][PANEL]
};

}  // namespace

Sizes words_sizes(const BConvShape& s, const WordKernels& kernels) {
  const int channels = s.ins().largest();
  // Classes of rows: those that hang over the top and over the bottom, and those that do not.
  const auto classes = [](int out, int kernel) { return static_cast<std::uint64_t>(std::min(out, 2 * kernel + 1)); };
  const std::uint64_t bases = classes(s.oh, s.kh) * classes(s.ow, s.kw) * PANEL * sizeof(float);
  const std::size_t bytes = std::max(words_of(channels) * WORD, bytes_of(channels, kernels));
  const std::uint64_t weights = z(s.taps()) * bytes * PANEL;
  const std::uint64_t codes = z(s.rows()) * line_bytes(s, bytes) + CACHE_LINE;
  const std::uint64_t panels = panel_count({s.out, 1}), pieces = panels + z(s.groups);
  return {panels * bases + pieces * (weights + 2 * sizeof(Piece)) + z(s.groups) * sizeof(Group), z(s.groups) * codes,
          words_scratch(s, kernels)};
}

std::unique_ptr<BConv> make_by_words(const BConvShape& shape, const CodeLayout& layout, WeightWords weights,
                                     const WordKernels& kernels) {
  return std::make_unique<WordsBConv>(shape, layout, weights, kernels);
}

}  // namespace ftbnn
