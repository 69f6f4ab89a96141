// Codes as planes of nibbles or bytes, positions in lanes: nothing is rounded up but channels to the chunk.
#include "kernels/bconv/planes.h"

#include <algorithm>
#include <cstring>

#include "base/aligned.h"
#include "kernels/bconv/border.h"
#include "kernels/bconv/layouts.h"

namespace ftbnn {

namespace {

constexpr std::size_t MOST_SUM = 32767;  // sums are kept in 16 bits

std::size_t z(int value) { return static_cast<std::size_t>(value); }

// The planes of one group of an image, with its border.
struct Planes {
  Planes(const BConvShape& s, int channels, int chunk)
      : chunks((channels + chunk - 1) / chunk),
        stride_y(std::min(s.sh, s.rows())),
        stride_x(std::min(s.sw, s.columns())),
        columns(z((s.columns() + stride_x - 1) / stride_x)),
        rows(z((s.rows() + stride_y - 1) / stride_y)) {}
  // Of one phase of row and column, of a chunk, and of all.
  std::size_t phase() const { return rows * columns; }
  std::size_t plane() const { return z(stride_y) * z(stride_x) * phase(); }
  std::size_t bytes() const { return round_up(z(chunks) * plane() + MOST_BLOCK, CACHE_LINE); }
  // Where column x of row y is, from the start of a chunk.
  std::size_t at(int y, int x) const {
    return z(y % stride_y * stride_x + x % stride_x) * phase() + z(y / stride_y) * columns + z(x / stride_x);
  }

  int chunks, stride_y, stride_x;
  std::size_t columns, rows;
};

struct Group {
  Planes planes;
  std::size_t codes_at;  // bytes from the start of the arranged memory
  bool is_copy;          // an earlier group has the same runs, and so the same place
};

struct Piece : PanelPart {
  std::size_t weights_at;
  int channels() const { return last - first; }
};

struct PanelPlan {
  int channels;
  std::vector<Piece> pieces;
  std::size_t base_at;
};

// Sums of a panel's block, or a row of codes.
std::size_t planes_scratch(const BConvShape& s, const PlaneKernels& kernels) {
  const std::size_t sums = z(PANEL) * z(kernels.block) * sizeof(std::int16_t) + CACHE_LINE;
  const std::size_t row = z(s.columns()) * words_of(s.ins().largest()) * sizeof(std::uint64_t);
  return round_up(std::max(sums, row), CACHE_LINE);
}

class PlanesBConv final : public BConv {
 public:
  PlanesBConv(const BConvShape& shape, const CodeLayout& layout, WeightWords weights, const PlaneKernels& kernels)
      : s_(shape), layout_(layout), kernels_(kernels), borders_(shape) {
    place_codes();
    lay_out(weights);
  }

  std::size_t arranged_bytes() const override { return arranged_; }
  std::size_t scratch_bytes() const override { return planes_scratch(s_, kernels_); }
  bool arranges() const override { return true; }
  // A block takes 3, the first half of one 2: weights are read all the same.
  int effort(int rows) const override {
    const int positions = (rows - 1) * static_cast<int>(groups_.front().planes.columns) + s_.ow;
    const int rest = positions % kernels_.block;
    return positions / kernels_.block * 3 + (rest == 0 ? 0 : rest <= kernels_.block / 2 ? 2 : 3);
  }

  void arrange(int first, int last, const Codes& codes, void* arranged, void* scratch) const override {
    auto* gathered = static_cast<std::uint64_t*>(scratch);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].is_copy) continue;
      for (int row = first * s_.sh; row < s_.end_row(last); ++row) spread_row(g, row, codes, arranged, gathered);
    }
  }

  void run(const BConvCall& call) const override {
    const PanelPlan& plan = panels_[z(call.panel)];
    const std::size_t columns = groups_.front().planes.columns, width = z(s_.ow), block = z(kernels_.block);
    auto* sums = static_cast<std::int16_t*>(call.scratch);
    FinishPlanes finish{};
    finish.sums_stride = block;
    finish.channels = plan.channels;
    finish.worth = borders_.worth;
    for (int image = 0; image < call.images; ++image) {
      const char* arranged = static_cast<const char*>(call.arranged) + z(image) * call.arranged_image;
      Epilogue row = call.end;
      if (row.out != nullptr) row.out += z(image) * call.out_image;
      const std::size_t start = z(call.first) * columns, end = z(call.last - 1) * columns + width;
      std::size_t y = z(call.first);
      for (std::size_t at = start; at < end; at += block) {
        const std::size_t stop = std::min(at + block, end);
        for (const Piece& piece : plan.pieces) count(piece, arranged, at, static_cast<int>(stop - at), sums);
        // The rows that have positions in the block.
        for (std::size_t p = at; p < stop;) {
          const std::size_t x = p - y * columns;
          const std::size_t last = std::min(stop - y * columns, width);
          if (x < last) {
            finish.sums = sums + (p - at);
            finish.width = static_cast<int>(last - x);
            finish.border = borders_.columns.of.data() + x;
            finish.base = bases_.data() + plan.base_at + z(borders_.rows.of[y]) * borders_.columns.count() * PANEL;
            finish.end = row;
            if (row.shortcut != nullptr) finish.end.shortcut += x * row.shortcut_stride;
            if (row.out != nullptr) finish.end.out += x * row.out_stride;
            if (row.codes != nullptr) finish.end.codes += x * row.codes_stride;
            kernels_.finish(finish);
          }
          if (stop < (y + 1) * columns) break;
          ++y;
          next_row(row);
          p = y * columns;
        }
      }
    }
  }

 private:
  void count(const Piece& piece, const char* arranged, std::size_t at, int positions, std::int16_t* sums) const {
    const Group& group = groups_[z(piece.group)];
    CountBlock block{};
    block.codes = reinterpret_cast<const std::uint8_t*>(arranged) + group.codes_at + at;
    const std::vector<std::uint32_t>& offsets = offsets_of(piece.group);
    block.offsets = offsets.data();
    block.weights = weights_.data() + piece.weights_at;
    block.steps = static_cast<int>(offsets.size());
    block.channels = piece.channels();
    block.positions = positions;
    block.sums = sums + z(piece.first) * z(kernels_.block);
    kernels_.count(block);
  }

  const std::vector<std::uint32_t>& offsets_of(int group) const { return offsets_[group + 1 < s_.groups ? 0 : 1]; }

  void place_codes() {
    const Groups ins = s_.ins();
    for (int g = 0; g < s_.groups; ++g) {
      Group group{Planes(s_, ins.size(g), kernels_.chunk), arranged_, false};
      const Planes& planes = group.planes;
      std::vector<std::uint32_t>& offsets = offsets_[g + 1 < s_.groups ? 0 : 1];
      for (int t = 0; t < s_.taps() && (g == 0 || g + 1 == s_.groups); ++t) {
        for (int k = 0; k < planes.chunks; ++k) {
          offsets.push_back(static_cast<std::uint32_t>(z(k) * planes.plane() + planes.at(t / s_.kw, t % s_.kw)));
        }
      }
      if (const int other = same_group(layout_, g); other >= 0) {
        group.is_copy = true;
        group.codes_at = groups_[z(other)].codes_at;
      }
      if (!group.is_copy) arranged_ += planes.bytes();
      groups_.push_back(std::move(group));
    }
  }

  void lay_out(WeightWords from) {
    const std::size_t classes = borders_.classes();
    std::size_t weights = 0, bases = 0;
    for (const Panel& panel : panels_of(Groups{s_.out, 1})) {
      PanelPlan plan{panel.channels, {}, bases};
      for (const PanelPart& part : parts_of(panel, s_.outs())) {
        plan.pieces.push_back({part, weights});
        const auto steps = static_cast<int>(offsets_of(part.group).size());
        weights += round_up(kernels_.pack(nullptr, plan.pieces.back().channels(), steps, nullptr), CACHE_LINE);
      }
      bases += classes * PANEL;
      panels_.push_back(std::move(plan));
    }
    weights_ = AlignedArray<std::uint8_t>(weights);
    bases_ = AlignedArray<float>(bases);
    std::vector<std::int32_t> whole(classes * PANEL);
    std::vector<std::uint8_t> chunks;
    std::vector<std::uint64_t> plain;  // [tap][word][PANEL] of a piece
    for (const PanelPlan& plan : panels_) {
      for (const Piece& piece : plan.pieces) {
        const Group& group = groups_[z(piece.group)];
        const int inputs = s_.ins().size(piece.group), steps = static_cast<int>(offsets_of(piece.group).size());
        const std::size_t words = words_of(inputs), size = z(s_.taps()) * words;
        chunks.resize(z(piece.channels()) * z(steps) + sizeof(std::uint64_t));
        plain.assign(size * PANEL, 0);
        for (int o = 0; o < piece.channels(); ++o, from += size) {
          for (std::size_t k = 0; k < size; ++k) plain[k * PANEL + z(o)] = from[k];
          for (int t = 0; t < s_.taps(); ++t) {
            split(from + z(t) * words, group.planes.chunks,
                  chunks.data() + z(o) * z(steps) + z(t * group.planes.chunks));
          }
        }
        kernels_.pack(chunks.data(), piece.channels(), steps, weights_.data() + piece.weights_at);
        borders_.find_bases(plain.data(), inputs, whole.data());
        for (std::size_t k = 0; k < classes; ++k) {
          std::copy_n(whole.data() + k * PANEL, piece.channels(),
                      bases_.data() + plan.base_at + k * PANEL + z(piece.first));
        }
      }
    }
  }

  // Words as chunks of a byte each; past the last one up to 7 bytes are overwritten.
  void split(const std::uint64_t* words, int chunks, std::uint8_t* to) const {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(words);
    if (kernels_.chunk == 8) {
      std::copy_n(bytes, chunks, to);
      return;
    }
    for (int k = 0; k < chunks; k += 8, bytes += 4) {
      std::uint32_t eight;
      std::memcpy(&eight, bytes, sizeof eight);
      std::uint64_t apart = eight;
      apart = (apart | apart << 16) & 0x0000ffff0000ffff;
      apart = (apart | apart << 8) & 0x00ff00ff00ff00ff;
      apart = (apart | apart << 4) & 0x0f0f0f0f0f0f0f0f;
      std::memcpy(to + k, &apart, sizeof apart);
    }
  }

  // A row of a group's image with its border.
  void spread_row(std::size_t g, int row, const Codes& codes, void* arranged, std::uint64_t* gathered) const {
    const Group& group = groups_[g];
    const Planes& planes = group.planes;
    const std::size_t words = words_of(s_.ins().size(static_cast<int>(g)));
    const int line = row - s_.ph;
    std::fill_n(gathered, z(s_.columns()) * words, 0);
    if (line >= 0 && line < s_.h) {
      gather_codes(codes.at + z(line) * codes.row, layout_.words, s_.w, layout_.groups[g], gathered + z(s_.pw) * words,
                   words);
    }
    for (int phase = 0; phase < planes.stride_x; ++phase) {
      const int width = (s_.columns() - phase + planes.stride_x - 1) / planes.stride_x;
      kernels_.spread({gathered + z(phase) * words, z(planes.stride_x) * words, width, planes.chunks,
                       static_cast<std::uint8_t*>(arranged) + group.codes_at + planes.at(row, phase), planes.plane()});
    }
  }

  const BConvShape s_;
  const CodeLayout layout_;
  const PlaneKernels& kernels_;
  const Borders borders_;
  std::vector<Group> groups_;
  std::vector<std::uint32_t> offsets_[2];  // of each step, [tap][chunk]: of all groups but the last, and of that
  std::vector<PanelPlan> panels_;
  std::size_t arranged_ = 0;
  AlignedArray<std::uint8_t> weights_;
  AlignedArray<float> bases_;  // [panel][row class][column class][PANEL]
};

}  // namespace

bool can_planes(const BConvShape& s) { return z(s.ins().largest()) * z(s.taps()) <= MOST_SUM; }

Sizes planes_sizes(const BConvShape& s, const PlaneKernels& kernels) {
  const Planes planes(s, s.ins().largest(), kernels.chunk);
  const int steps = planes.chunks * s.taps();
  const auto classes = [](int out, int kernel) { return static_cast<std::uint64_t>(std::min(out, 2 * kernel + 1)); };
  const std::uint64_t bases = classes(s.oh, s.kh) * classes(s.ow, s.kw) * PANEL * sizeof(float);
  const std::uint64_t weights = kernels.pack(nullptr, PANEL, steps, nullptr);
  const std::uint64_t offsets = 2 * z(steps) * sizeof(std::uint32_t) + z(s.groups) * sizeof(Group);
  const std::uint64_t panels = panel_count({s.out, 1}), pieces = panels + z(s.groups);
  return {panels * (weights + bases) + pieces * (CACHE_LINE + 2 * sizeof(Piece)) + offsets,
          z(s.groups) * planes.bytes(), planes_scratch(s, kernels)};
}

std::unique_ptr<BConv> make_by_planes(const BConvShape& shape, const CodeLayout& layout, WeightWords weights,
                                      const PlaneKernels& kernels) {
  return std::make_unique<PlanesBConv>(shape, layout, weights, kernels);
}

}  // namespace ftbnn
