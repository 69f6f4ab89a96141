// Runs of words, weights as [panel][kh][run][PANEL]: a lane is an output channel.
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

// A position's bytes, and a run's words, where `bits` are a position's.
std::size_t bytes_of(int bits) { return z(bits + 7) / 8; }
int run_of(int kw, std::size_t bytes) { return static_cast<int>((z(kw) * bytes + WORD - 1) / WORD); }

// Bytes of a gathered row: reads go up to a word past its end.
std::size_t line_bytes(const BConvShape& s, int channels) {
  return round_up((z(s.columns()) * bytes_of(channels) + WORD), WORD);
}

// In place a run has whole words for each tap; bringing bits together must be worth the work.
bool is_worth_gathering(const BConvShape& s) {
  const int in_place = s.kw * static_cast<int>(words_of(s.in));
  return 20 * run_of(s.kw, bytes_of(s.in)) <= 19 * in_place;
}

// A row of words as it is gathered; or the ones of an output row and of the columns under it.
std::size_t words_scratch(const BConvShape& s) {
  const std::size_t row = z(s.columns()) * words_of(s.ins().largest()) * WORD;
  return round_up(std::max(row, z(s.columns() + s.ow) * sizeof(std::int32_t)), CACHE_LINE);
}

// One group as the loops see it.
struct Group {
  int in;                // channels
  std::size_t bytes;     // of a position
  int run;               // words
  std::uint64_t mask;    // of a run's last word
  std::size_t codes_at;  // bytes from the start of the arranged memory
  bool is_copy;          // an earlier group has the same bits, and so the same place
  std::size_t ones_at;   // numbers from the start of the ones
};

struct PanelPlan {
  Panel panel;
  std::size_t weights_at, base_at;
};

class WordsBConv final : public BConv {
 public:
  WordsBConv(const BConvShape& shape, const CodeLayout& layout, WeightWords weights, const WordKernels& kernels)
      : s_(shape), layout_(layout), kernels_(kernels) {
    const std::vector<BitRun> all = {{0, layout_.bits}};
    is_in_place_ = layout_.has_border && s_.groups == 1 && layout_.groups[0] == all &&
                   words_of(s_.in) == layout_.words && !is_worth_gathering(s_);
    place_codes();
    lay_out(weights);
  }

  std::size_t arranged_bytes() const override { return arranged_ + ones_ * sizeof(std::int32_t); }
  std::size_t scratch_bytes() const override { return words_scratch(s_); }
  bool arranges() const override { return !is_in_place_ || s_.zero_one; }

  void arrange(int first, int last, const Codes& codes, void* arranged, void* scratch) const override {
    const int end = last == s_.oh ? s_.rows() : std::min(last * s_.sh, s_.rows());
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].is_copy) continue;
      for (int row = std::min(first * s_.sh, s_.rows()); row < end; ++row) {
        make_line(g, row, codes, static_cast<std::uint8_t*>(arranged), static_cast<std::uint64_t*>(scratch));
      }
    }
  }

  void run(const BConvCall& call) const override {
    const PanelPlan& plan = panels_[z(call.panel)];
    const Group& group = groups_[z(plan.panel.group)];
    BConvRow row{};
    row.kh = s_.kh;
    row.run = group.run;
    row.mask = group.mask;
    row.step = z(s_.sw) * group.bytes;
    row.width = s_.ow;
    row.channels = plan.panel.channels;
    row.zero_one = s_.zero_one;
    row.border = columns_.of.data();
    row.weights = weights_.data() + plan.weights_at;
    row.row_stride = is_in_place_ ? call.codes.row * WORD : line_bytes(s_, group.in);
    for (int image = 0; image < call.images; ++image) {
      const auto* arranged = static_cast<const std::uint8_t*>(call.arranged) + z(image) * call.arranged_image;
      const std::uint8_t* at =
          is_in_place_ ? reinterpret_cast<const std::uint8_t*>(corner(call.codes)) : arranged + group.codes_at;
      row.end = call.end;
      if (row.end.out != nullptr) row.end.out += z(image) * call.out_image;
      for (int y = call.first; y < call.last; ++y, next_row(row.end)) {
        row.in = at + z(y) * z(s_.sh) * row.row_stride;
        if (s_.zero_one) {
          row.ones = window_ones(group, y, arranged, static_cast<std::int32_t*>(call.scratch));
        } else {
          row.base = bases_.data() + plan.base_at + z(rows_.of[z(y)]) * columns_.count() * PANEL;
        }
        kernels_.row(row);
      }
    }
  }

 private:
  // The first tap of the first output, where codes are read in place.
  const std::uint64_t* corner(const Codes& codes) const {
    return codes.at - z(s_.ph) * codes.row - z(s_.pw) * layout_.words;
  }

  void place_codes() {
    const Groups ins = s_.ins();
    for (int g = 0; g < s_.groups; ++g) {
      const std::size_t bytes = is_in_place_ ? WORD * layout_.words : bytes_of(ins.size(g));
      const int run = run_of(s_.kw, bytes), left = static_cast<int>(8 * (z(s_.kw) * bytes % WORD));
      const std::uint64_t mask = left == 0 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
      Group group{ins.size(g), bytes, run, mask, arranged_, false, ones_};
      if (const int other = same_group(layout_, g); other >= 0) {
        group.is_copy = true;
        group.codes_at = groups_[z(other)].codes_at;
        group.ones_at = groups_[z(other)].ones_at;
      }
      if (!group.is_copy) {
        if (!is_in_place_) arranged_ += round_up(z(s_.rows()) * line_bytes(s_, group.in), CACHE_LINE);
        if (s_.zero_one) ones_ += z(s_.rows()) * z(s_.columns());
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
      weights += z(s_.kh) * z(group.run) * PANEL;
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
      join_taps(plain.data(), group, weights_.data() + plan.weights_at);
      if (!s_.zero_one) {
        border_bases(plain.data(), group.in, s_.kh, s_.kw, rows_.kinds, columns_.kinds, bases_.data() + plan.base_at);
      }
    }
  }

  // Weights [kh][kw][word] as the codes of runs lie, [kh][run].
  void join_taps(const std::uint64_t* plain, const Group& group, std::uint64_t* to) const {
    const std::size_t words = words_of(group.in);
    for (int t = 0; t < s_.taps(); ++t) {
      for (std::size_t k = 0; k < words; ++k) {
        const std::size_t bit = 8 * z(t % s_.kw) * group.bytes + 64 * k, shift = bit % 64;
        std::uint64_t* word = to + (z(t / s_.kw) * z(group.run) + bit / 64) * PANEL;
        for (std::size_t o = 0; o < PANEL; ++o) {
          const std::uint64_t bits = plain[(z(t) * words + k) * PANEL + o];
          word[o] |= bits << shift;
          if (shift > 0 && bits >> (64 - shift) != 0) word[PANEL + o] |= bits >> (64 - shift);
        }
      }
    }
  }

  // A row of a group's image with its border, and the ones of its positions.
  void make_line(std::size_t g, int row, const Codes& codes, std::uint8_t* arranged, std::uint64_t* gathered) const {
    const Group& group = groups_[g];
    std::uint8_t* to = arranged + group.codes_at + z(row) * line_bytes(s_, group.in);
    auto* ones = reinterpret_cast<std::int32_t*>(arranged + arranged_) + group.ones_at + z(row) * z(s_.columns());
    const int line = row - s_.ph;
    if (!is_in_place_) std::fill_n(to, line_bytes(s_, group.in), 0);
    if (s_.zero_one) std::fill_n(ones, s_.columns(), 0);
    if (line < 0 || line >= s_.h) return;
    const std::uint64_t* from = codes.at + z(line) * codes.row;
    const std::size_t words = words_of(group.in);
    if (!is_in_place_) {
      gather_codes(from, layout_.words, s_.w, layout_.groups[g], gathered, words);
      from = gathered;
      put_together(from, words, group.bytes, to + z(s_.pw) * group.bytes);
    }
    if (s_.zero_one) kernels_.ones(from, words, s_.w, ones + s_.pw);
  }

  // Positions of whole words to positions of `bytes` bytes: what a word has behind those is zero, as is what follows.
  void put_together(const std::uint64_t* from, std::size_t words, std::size_t bytes, std::uint8_t* to) const {
    if (words == 1) {
      for (int x = 0; x < s_.w; ++x, to += bytes) std::memcpy(to, from + x, WORD);
    } else {
      for (int x = 0; x < s_.w; ++x, from += words, to += bytes) {
        for (std::size_t k = 0; k < words; ++k) std::memcpy(to + k * WORD, from + k, WORD);
      }
    }
  }

  // The ones in every window of an output row.
  const std::int32_t* window_ones(const Group& group, int y, const std::uint8_t* arranged, std::int32_t* to) const {
    const std::int32_t* from =
        reinterpret_cast<const std::int32_t*>(arranged + arranged_) + group.ones_at + z(y) * z(s_.sh) * z(s_.columns());
    std::int32_t* columns = to + s_.ow;
    std::copy_n(from, s_.columns(), columns);
    for (int ky = 1; ky < s_.kh; ++ky) {
      for (int x = 0; x < s_.columns(); ++x) columns[x] += from[z(ky) * z(s_.columns()) + z(x)];
    }
    for (int x = 0; x < s_.ow; ++x) {
      to[x] = 0;
      for (int kx = 0; kx < s_.kw; ++kx) to[x] += columns[x * s_.sw + kx];
    }
    return to;
  }

  const BConvShape s_;
  const CodeLayout layout_;
  const WordKernels& kernels_;
  bool is_in_place_ = false;
  std::vector<Group> groups_;
  std::vector<PanelPlan> panels_;
  std::size_t arranged_ = 0, ones_ = 0;  // bytes, and numbers behind them
  AlignedArray<std::uint64_t> weights_;
  BorderClasses rows_, columns_;
  AlignedArray<std::int32_t> bases_;  // [panel][row class][column class][PANEL]
};

}  // namespace

Sizes words_sizes(const BConvShape& s) {
  const int channels = s.ins().largest();
  // Classes of rows: those that hang over the top and over the bottom, and those that do not.
  const auto classes = [](int out, int kernel) { return static_cast<std::uint64_t>(std::min(out, 2 * kernel + 1)); };
  const std::uint64_t bases = s.zero_one ? 0 : classes(s.oh, s.kh) * classes(s.ow, s.kw) * sizeof(std::int32_t);
  const std::uint64_t weights = z(s.taps()) * words_of(channels) * WORD;
  const std::uint64_t codes = z(s.rows()) * line_bytes(s, channels) + CACHE_LINE;
  const std::uint64_t ones = s.zero_one ? s.border_positions() * sizeof(std::int32_t) : 0;
  return {panel_count(s.outs()) * PANEL * (weights + bases), z(s.groups) * (codes + ones), words_scratch(s)};
}

std::unique_ptr<BConv> make_by_words(const BConvShape& shape, const CodeLayout& layout, WeightWords weights,
                                     const WordKernels& kernels) {
  return std::make_unique<WordsBConv>(shape, layout, weights, kernels);
}

}  // namespace ftbnn
