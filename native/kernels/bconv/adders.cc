// Weights as digits of up to 512 output channels, codes as patterns of threes: what does not fill its vectors is
// somebody else's.
#include "kernels/bconv/adders.h"

#include <algorithm>

#include "base/aligned.h"
#include "kernels/bconv/border.h"
#include "kernels/bconv/layouts.h"

namespace ftbnn {

namespace {

constexpr int MOST_SUM = 32767;     // numbers are kept in 16 bits
constexpr int LEAST_OUTPUTS = 192;  // of a group: fewer leave too many lanes empty
constexpr int MOST_PANELS_OF_A_CALL = MOST_LANES / PANEL;

std::size_t z(int value) { return static_cast<std::size_t>(value); }

int quads_of(int channels) { return (channels + QUAD_CHANNELS - 1) / QUAD_CHANNELS; }
// Of a position, as its quads read them.
std::size_t code_words(int channels) { return words_of(quads_of(channels) * QUAD_CHANNELS); }
int lanes_of(int channels) { return channels > MOST_LANES / 2 ? MOST_LANES : MOST_LANES / 2; }
std::size_t digit_bytes(int channels) { return z(lanes_of(channels)) / 8; }

int digits_of(const BConvShape& s) {
  int digits = LEAST_DIGITS;
  while (s.ins().largest() * s.taps() >> digits != 0) ++digits;
  return digits;
}

int panels_of_group(const BConvShape& s, int group) { return static_cast<int>(panel_count({s.outs().size(group), 1})); }

// As many panels of a group in each call as there is room for, in as few calls as it takes; one by one where groups
// have different numbers of panels, so that calls do not begin with the groups.
int panels_of_call(const BConvShape& s) {
  const int panels = panels_of_group(s, 0), calls = (panels + MOST_PANELS_OF_A_CALL - 1) / MOST_PANELS_OF_A_CALL;
  if (s.groups > 1 && (calls > 1 || panels != panels_of_group(s, s.groups - 1))) return 1;
  return (panels + calls - 1) / calls;
}

// Neighbouring output channels of a group, which a call makes.
struct Piece {
  int group, first, channels;
  std::size_t weights_at, base_at;
};

std::vector<Piece> plan_pieces(const BConvShape& s) {
  std::vector<Piece> pieces;
  const int most = panels_of_call(s) * PANEL;
  for (int g = 0; g < s.groups; ++g) {
    const int first = s.outs().first(g), size = s.outs().size(g);
    for (int c = 0; c < size; c += most) pieces.push_back({g, first + c, std::min(most, size - c), 0, 0});
  }
  return pieces;
}

std::size_t weight_bytes(const BConvShape& s, const Piece& piece) {
  return z(s.taps() * quads_of(s.ins().size(piece.group)) * QUAD_DIGITS) * digit_bytes(piece.channels);
}
std::size_t panels_of_piece(const Piece& piece) { return panel_count({piece.channels, 1}); }

// A group's quads, [row][column][quad], with the image's border.
std::size_t quads_bytes(const BConvShape& s, int channels) {
  return round_up(s.border_positions() * z(quads_of(channels)) * sizeof(std::uint64_t), CACHE_LINE);
}

// What the loops take, or the codes of a row on their way to quads.
std::size_t adders_scratch(const BConvShape& s, const AdderKernels& kernels) {
  const std::size_t row = (z(s.w) * code_words(s.ins().largest()) + 1) * sizeof(std::uint64_t);
  return round_up(std::max(kernels.scratch(s.ow, digits_of(s)), row), CACHE_LINE);
}

// Rows of 64 bits become columns.
void transpose(std::uint64_t (&rows)[64]) {
  std::uint64_t mask = 0x00000000ffffffff;
  for (int step = 32; step > 0; step /= 2, mask ^= mask << step) {
    for (int k = 0; k < 64; k = ((k | step) + 1) & ~step) {
      const std::uint64_t swapped = (rows[k] >> step ^ rows[k | step]) & mask;
      rows[k] ^= swapped << step;
      rows[k | step] ^= swapped;
    }
  }
}

class AddersBConv final : public BConv {
 public:
  AddersBConv(const BConvShape& shape, const CodeLayout& layout, WeightWords weights, const AdderKernels& kernels)
      : s_(shape), layout_(layout), kernels_(kernels), borders_(shape), pieces_(plan_pieces(shape)) {
    place_codes();
    lay_out(weights);
  }

  std::size_t arranged_bytes() const override { return arranged_; }
  std::size_t scratch_bytes() const override { return adders_scratch(s_, kernels_); }
  bool arranges() const override { return true; }
  int panels_at_once() const override { return panels_of_call(s_); }
  std::size_t best_outputs() const override { return std::size_t{1} << 17; }  // tables are made in every call

  void arrange(int first, int last, const Codes& codes, void* arranged, void* scratch) const override {
    auto* gathered = static_cast<std::uint64_t*>(scratch);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].is_copy) continue;
      for (int row = first * s_.sh; row < s_.end_row(last); ++row) spread_row(g, row, codes, arranged, gathered);
    }
  }

  void run(const BConvCall& call) const override {
    const Piece& piece = pieces_[z(call.panel / panels_of_call(s_))];
    const std::size_t quads = z(quads_of(s_.ins().size(piece.group)));
    const std::vector<std::uint32_t>& offsets = offsets_of(piece.group);
    AddRows rows{};
    rows.step = z(s_.sw) * quads;
    rows.row_step = z(s_.sh) * z(s_.columns()) * quads;
    rows.offsets = offsets.data();
    rows.count = static_cast<int>(offsets.size());
    rows.weights = weights_.data() + piece.weights_at;
    rows.lanes = lanes_of(piece.channels);
    rows.digits = digits_of(s_);
    rows.rows = call.last - call.first;
    rows.width = s_.ow;
    rows.channels = piece.channels;
    rows.worth = borders_.worth;
    rows.base = bases_.data() + piece.base_at;
    rows.panel_base = borders_.classes() * PANEL;
    rows.row_base = borders_.columns.count() * PANEL;
    rows.row_border = borders_.rows.of.data() + call.first;
    rows.column_border = borders_.columns.of.data();
    rows.scratch = call.scratch;
    rows.end = call.end;
    for (int image = 0; image < call.images; ++image) {
      const char* arranged = static_cast<const char*>(call.arranged) + z(image) * call.arranged_image;
      rows.quads = reinterpret_cast<const std::uint64_t*>(arranged + groups_[z(piece.group)].codes_at) +
                   z(call.first) * rows.row_step;
      kernels_.rows(rows);
      if (rows.end.out != nullptr) rows.end.out += call.out_image;
    }
  }

 private:
  struct Group {
    std::size_t codes_at;  // bytes from the start of the arranged memory
    bool is_copy;          // an earlier group has the same runs, and so the same place
  };

  const std::vector<std::uint32_t>& offsets_of(int group) const { return offsets_[group + 1 < s_.groups ? 0 : 1]; }

  void place_codes() {
    for (int g = 0; g < s_.groups; ++g) {
      const int other = same_group(layout_, g);
      groups_.push_back({other >= 0 ? groups_[z(other)].codes_at : arranged_, other >= 0});
      if (other < 0) arranged_ += quads_bytes(s_, s_.ins().size(g));
    }
    for (const int g : {0, s_.groups - 1}) {
      std::vector<std::uint32_t>& offsets = offsets_[g + 1 < s_.groups ? 0 : 1];
      const int quads = quads_of(s_.ins().size(g));
      offsets.clear();
      for (int t = 0; t < s_.taps(); ++t) {
        for (int k = 0; k < quads; ++k) {
          offsets.push_back(static_cast<std::uint32_t>((t / s_.kw * s_.columns() + t % s_.kw) * quads + k));
        }
      }
    }
  }

  void lay_out(WeightWords from) {
    std::size_t weights = 0, bases = 0;
    for (Piece& piece : pieces_) {
      piece.weights_at = weights;
      piece.base_at = bases;
      weights += weight_bytes(s_, piece);
      bases += panels_of_piece(piece) * borders_.classes() * PANEL;
    }
    weights_ = AlignedArray<std::uint8_t>(weights);
    bases_ = AlignedArray<float>(bases);
    for (const Piece& piece : pieces_) {
      make_digits(piece, from);
      find_bases(piece, from);
      from += z(piece.channels) * z(s_.taps()) * words_of(s_.ins().size(piece.group));
    }
  }

  // Weights [channel][tap][word] as [tap][quad] digits.
  void make_digits(const Piece& piece, WeightWords from) {
    const int inputs = s_.ins().size(piece.group), quads = quads_of(inputs), lanes = lanes_of(piece.channels);
    const std::size_t words = words_of(inputs), bytes = z(lanes) / 8;
    for (int t = 0; t < s_.taps(); ++t) {
      std::uint8_t* tap = weights_.data() + piece.weights_at + z(t * quads * QUAD_DIGITS) * bytes;
      for (int c = 0; c < inputs; c += 64) {
        for (int j = 0; j < lanes / 8; j += 8) {  // of 64 lanes
          std::uint64_t bits[64];
          for (int k = 0; k < 64; ++k) {
            const int o = lane_of(lanes, j + k / 8, k % 8);
            bits[k] = o < piece.channels ? from[(z(o) * z(s_.taps()) + z(t)) * words + z(c) / 64] : 0;
          }
          transpose(bits);
          for (int k = 0; k < std::min(64, inputs - c); ++k) {
            std::copy_n(reinterpret_cast<const std::uint8_t*>(bits + k), 8, tap + z(c + k) * bytes + z(j));
          }
        }
      }
    }
  }

  void find_bases(const Piece& piece, WeightWords from) {
    const int inputs = s_.ins().size(piece.group);
    const std::size_t size = z(s_.taps()) * words_of(inputs), bases = borders_.classes() * PANEL;
    std::vector<std::uint64_t> plain(size * PANEL);  // [tap][word][PANEL]
    std::vector<std::int32_t> whole(bases);
    float* to = bases_.data() + piece.base_at;
    for (int first = 0; first < piece.channels; first += PANEL, to += bases) {
      std::fill(plain.begin(), plain.end(), 0);
      for (int o = 0; o < std::min(PANEL, piece.channels - first); ++o) {
        for (std::size_t k = 0; k < size; ++k) plain[k * PANEL + z(o)] = from[z(first + o) * size + k];
      }
      borders_.find_bases(plain.data(), inputs, whole.data());
      std::copy(whole.begin(), whole.end(), to);
    }
  }

  // A row of a group's image with its border.
  void spread_row(std::size_t g, int row, const Codes& codes, void* arranged, std::uint64_t* gathered) const {
    const int inputs = s_.ins().size(static_cast<int>(g)), line = row - s_.ph;
    const std::size_t quads = z(quads_of(inputs)), words = code_words(inputs);
    auto* to = reinterpret_cast<std::uint64_t*>(static_cast<char*>(arranged) + groups_[g].codes_at) +
               z(row) * z(s_.columns()) * quads;
    std::fill_n(to, z(s_.columns()) * quads, 0);
    if (line < 0 || line >= s_.h) return;
    std::fill_n(gathered, z(s_.w) * words, 0);
    gather_codes(codes.at + z(line) * codes.row, layout_.words, s_.w, layout_.groups[g], gathered, words);
    kernels_.spread(gathered, words, s_.w, static_cast<int>(quads), to + z(s_.pw) * quads);
  }

  const BConvShape s_;
  const CodeLayout layout_;
  const AdderKernels& kernels_;
  const Borders borders_;
  std::vector<Piece> pieces_;
  std::vector<Group> groups_;
  std::vector<std::uint32_t> offsets_[2];  // of each quad, [tap][quad]: of all groups but the last, and of that
  std::size_t arranged_ = 0;
  AlignedArray<std::uint8_t> weights_;
  AlignedArray<float> bases_;  // [piece][panel][row class][column class][PANEL]
};

}  // namespace

bool can_adders(const BConvShape& s) { return s.ins().largest() <= MOST_SUM / s.taps(); }

bool suits_adders(const BConvShape& s) {
  return can_adders(s) && (s.groups == 1 || panels_of_call(s) > 1) && s.outs().size(0) >= LEAST_OUTPUTS;
}

Sizes adders_sizes(const BConvShape& s, const AdderKernels& kernels) {
  const auto classes = [](int out, int kernel) { return static_cast<std::uint64_t>(std::min(out, 2 * kernel + 1)); };
  const int inputs = s.ins().largest(), most = panels_of_call(s);
  const std::uint64_t quads = z(s.taps()) * z(quads_of(inputs)), panels = panel_count(s.outs());
  const std::uint64_t pieces = (panels + z(most) - 1) / z(most) + z(s.groups);
  const std::uint64_t bases = classes(s.oh, s.kh) * classes(s.ow, s.kw) * PANEL * sizeof(float);
  const std::uint64_t piece = quads * QUAD_DIGITS * digit_bytes(most * PANEL) + CACHE_LINE + sizeof(Piece);
  return {pieces * piece + panels * bases + 2 * quads * sizeof(std::uint32_t), z(s.groups) * quads_bytes(s, inputs),
          adders_scratch(s, kernels)};
}

std::unique_ptr<BConv> make_by_adders(const BConvShape& shape, const CodeLayout& layout, WeightWords weights,
                                      const AdderKernels& kernels) {
  return std::make_unique<AddersBConv>(shape, layout, weights, kernels);
}

}  // namespace ftbnn
