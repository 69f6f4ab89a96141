// Both gradients are products of a left operand made from gy and a right one of -1, 0 and +1.
//
// Images go through in slices, and within a slice the image is the fastest index: a position (y, x) is a run of n
// neighbours. So a row of positions is one run of x * n, whatever the size of the image; a tap shifts it by whole
// positions; and neighbours of the depth that share a dword never fall on different sides of a border.
#include "training/conv_grad.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "base/aligned.h"

namespace ftbnn::training {

namespace {

// A core's second-level cache (1 or 2 MiB) should hold the operands of a run of tasks.
constexpr int SLICE_POSITIONS = 4096;        // the codes of a panel are 256 KiB then, or 512 as floats
constexpr std::size_t PART_BYTES = 1 << 19;  // of gy, for the channels that tasks of the weight gradient share
constexpr int BLOCK_PANELS = 4;              // of the input gradient, whose sums wait to go into gx together
constexpr int BLOCK_ROWS = 224;              // and of so many positions: a multiple of the kernels' tiles, 14 and 32
constexpr int TASKS_PER_THREAD = 4;
constexpr float SMALLEST_GRADIENT = 1e-30F;  // that bytes know

template <typename T>
T divide_up(T a, T b) {
  return (a + b - 1) / b;
}

// Memory on cache lines that a thread keeps from call to call: fresh pages cost more than what is done with them.
class Scratch {
 public:
  void restart() { next_ = 0; }

  void* take(std::size_t bytes) {
    if (next_ == blocks_.size()) blocks_.emplace_back();
    Block& block = blocks_[next_++];
    if (bytes > block.size) {
      block.data.reset();
      block.size = 0;
      block.data.reset(std::aligned_alloc(CACHE_LINE, round_up(bytes, CACHE_LINE)));
      if (!block.data) throw std::bad_alloc();
      block.size = bytes;
    }
    return block.data.get();
  }

 private:
  struct Free {
    void operator()(void* pointer) const { std::free(pointer); }
  };
  struct Block {
    std::unique_ptr<void, Free> data;
    std::size_t size = 0;
  };
  std::vector<Block> blocks_;
  std::size_t next_ = 0;
};

thread_local Scratch scratch;       // of a caller
thread_local Scratch task_scratch;  // of whoever runs a task

std::size_t bytes_of(const GradKernels& kernels) { return sizeof(float) / kernels.packed; }

// Elements of any kind, addressed by number.
class Elements {
 public:
  Elements(const GradKernels& kernels, std::size_t count)
      : bytes_(bytes_of(kernels)), data_(static_cast<char*>(scratch.take(count * bytes_))) {}
  void* at(std::size_t index) const { return data_ + index * bytes_; }
  void zero(std::size_t index, std::size_t count) const {
    std::fill_n(data_ + index * bytes_, count * bytes_, char{0});
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  char* data_;
};

// Rows a large power of two apart fall into the same few lines of the first-level cache: one line more in between.
std::size_t row_stride(const GradKernels& kernels, int depth) {
  const std::size_t bytes = bytes_of(kernels), stride = static_cast<std::size_t>(depth);
  return stride * bytes % 1024 == 0 ? stride + CACHE_LINE / bytes : stride;
}

// A left operand: rows, and for bytes the sum of each.
class Left {
 public:
  Left(const GradKernels& kernels, std::size_t rows, int depth)
      : depth_(depth), stride_(row_stride(kernels, depth)), elements_(kernels, (rows + GRAD_ROWS) * stride_) {
    if (kernels.packed == 4) sums_ = static_cast<std::int32_t*>(scratch.take(rows * sizeof(std::int32_t)));
  }
  GradRows rows(std::size_t row, const float* rates) const {
    return {elements_.at(row * stride_), stride_, depth_, rates, sums(row)};
  }
  void zero(std::size_t row, std::size_t count) const {
    elements_.zero(row * stride_, count * stride_);
    if (sums_ != nullptr) std::fill_n(sums(row), count, 0);
  }
  const void* at(std::size_t row) const { return elements_.at(row * stride_); }
  std::int32_t* sums(std::size_t row) const { return sums_ == nullptr ? nullptr : sums_ + row; }
  std::size_t stride() const { return stride_; }
  std::size_t row_bytes() const { return stride_ * elements_.bytes(); }

 private:
  int depth_;
  std::size_t stride_;
  Elements elements_;
  std::int32_t* sums_ = nullptr;
};

struct Group {
  int first_in, in, first_out, out;
  const float* weight;
  float* grad;
};

std::vector<Group> groups_of(const ConvShape& s, const float* weight, const float* tail, float* gw, float* gtail) {
  const int in = s.in / s.groups, out = s.out / s.groups, last = s.groups - 1;
  const bool even = in * s.groups == s.in && out * s.groups == s.out;
  std::vector<Group> groups;
  for (int g = 0; g < s.groups; ++g) {
    Group group = {g * in, in, g * out, out, nullptr, nullptr};
    const bool in_tail = g == last && !even;
    if (in_tail) group.in = s.in - group.first_in, group.out = s.out - group.first_out;
    const std::size_t at = in_tail ? 0 : static_cast<std::size_t>(group.first_out) * in * s.kh * s.kw;
    group.weight = (in_tail ? tail : weight) + at;
    if (gw != nullptr) group.grad = (in_tail ? gtail : gw) + at;
    groups.push_back(group);
  }
  return groups;
}

// What bytes are rounded by, found slice by slice: the steps in a unit and the size of a step, for each image (a row of
// the input gradient's left operand is one) and for each channel (a row of the weight gradient's).
class Steps {
 public:
  Steps(const ConvShape& shape, const GradKernels& kernels) : s(shape), find_largest_(kernels.find_largest) {}

  void find(const float* gy, int images, Team& team) {
    if (find_largest_ == nullptr) return;
    const std::size_t outs = s.out;
    const int bands = std::min(s.oh(), divide_up(16, images)), band = divide_up(s.oh(), bands);
    largest_.resize(images * bands * outs);
    team.run(images * bands, [&](int task) {
      const int first = std::min(s.oh(), task % bands * band), rows = std::min(band, s.oh() - first);
      const std::size_t position = (static_cast<std::size_t>(task / bands) * s.oh() + first) * s.ow();
      find_largest_(gy + position * outs, static_cast<std::size_t>(rows) * s.ow(), s.out, &largest_[task * outs]);
    });
    std::vector<std::uint32_t> of_images(images), of_channels(outs);
    const std::uint32_t* found = largest_.data();
    for (std::uint32_t& image : of_images) {
      for (int k = 0; k < bands; ++k, found += outs) {
        for (std::size_t c = 0; c < outs; ++c) {
          image = std::max(image, found[c]);
          of_channels[c] = std::max(of_channels[c], found[c]);
        }
      }
    }
    images_.set(BLOCK_ROWS, of_images);
    channels_.set(outs, of_channels);
  }

  const float* image_rates() const { return images_.rates.data(); }
  const float* image_sizes() const { return images_.sizes.data(); }  // [BLOCK_ROWS], of all images again and again
  const float* channel_rates(int first) const { return channels_.rates.data() + first; }
  const float* channel_sizes(int first) const { return channels_.sizes.data() + first; }

 private:
  struct OfRows {
    // From the bits of largest magnitudes. What is not finite leaves nothing finite; what is next to nothing is 0.
    void set(std::size_t rows, const std::vector<std::uint32_t>& magnitudes) {
      rates.resize(rows);
      sizes.resize(rows);
      for (std::size_t row = 0; row < rows; ++row) {
        float largest;
        std::memcpy(&largest, &magnitudes[row % magnitudes.size()], sizeof largest);
        const bool counts = largest > SMALLEST_GRADIENT && std::isfinite(largest);
        rates[row] = counts ? GRAD_STEPS / largest : 0.0F;
        sizes[row] = counts ? largest / GRAD_STEPS : largest * 0.0F;
      }
    }
    std::vector<float> rates, sizes;
  };

  const ConvShape s;
  void (*find_largest_)(const float*, std::size_t, int, std::uint32_t*);
  std::vector<std::uint32_t> largest_;
  OfRows images_, channels_;
};

struct Slice {
  int first, images;
  const float* gy;  // of its first image
  const Steps& steps;
};

// The gradients below are each of one group. A slice is packed row by row, then multiplied by numbered tasks, in one
// round or more; what is in one round may run in any order.

// Taps that reach a coordinate of the input: those k with (coordinate + pad - k) divisible by the stride.
struct Tap {
  int k, shift;  // its source is shift + coordinate / stride
};

std::vector<Tap> taps_of(int coordinate, int size, int stride, int pad) {
  const int phase = coordinate % stride;
  std::vector<Tap> taps;
  for (int k = 0; k < size; ++k) {
    if ((phase + pad - k) % stride == 0) taps.push_back({k, (phase + pad - k) / stride});
  }
  return taps;
}

// Left: gy as [y][column][n][out channel], with as many columns of zeros as the taps reach out. Right: signs of the
// proxies. A product's rows are positions, and its segments the taps.
class InputGradient {
 public:
  InputGradient(const ConvShape& shape, const Group& group, const std::uint64_t* inside, float* gx, int slice,
                const GradKernels& kernels)
      : s(shape),
        group_(group),
        kernels_(kernels),
        inside_(inside),
        gx_(gx),
        depth_(static_cast<int>(round_up(static_cast<std::size_t>(group.out), kernels.depth_step))),
        panels_(divide_up(group.in, GRAD_LANES)),
        columns_(find_columns()),
        left_(kernels, static_cast<std::size_t>(s.oh()) * columns_ * slice, depth_),
        right_(kernels, panels_ * panel_size()) {}

  void pack_weights(int panel) const {
    const int first = panel * GRAD_LANES, taps = s.kh * s.kw;
    kernels_.pack_signs(group_.weight + first * taps, static_cast<std::size_t>(group_.in) * taps, group_.out,
                        std::min(GRAD_LANES, group_.in - first), taps, right_.at(panel * panel_size()), tap_size(),
                        depth_);
  }
  int panels() const { return panels_; }

  void pack(const Slice& slice, int y) {
    const int oh = s.oh(), ow = s.ow();
    if (y >= oh) return;
    const std::size_t column = slice.images, row = y * columns_ * column;
    left_.zero(row, -first_column_ * column);
    for (int x = 0; x < ow; ++x) {
      kernels_.pack_rows(slice.gy + (static_cast<std::size_t>(y) * ow + x) * s.out + group_.first_out,
                         static_cast<std::size_t>(oh) * ow * s.out, slice.images, group_.out,
                         left_.rows(row + (x - first_column_) * column, slice.steps.image_rates()));
    }
    left_.zero(row + (ow - first_column_) * column, (columns_ + first_column_ - ow) * column);
  }

  int tasks() const { return divide_up(panels_, BLOCK_PANELS) * s.h * phases(); }

  void run(const Slice& slice, int task) {
    const int phase = task % phases(), y = task / phases() % s.h, panel = task / phases() / s.h * BLOCK_PANELS;
    const int ns = slice.images, words = divide_up(s.in, 64);
    std::vector<std::size_t> left_row, right_at;
    for (const Tap& ty : taps_of(y, s.kh, s.sh, s.ph)) {
      const int row = ty.shift + y / s.sh;
      if (row < 0 || row >= s.oh()) continue;
      for (const Tap& tx : taps_of(phase, s.kw, s.sw, s.pw)) {
        left_row.push_back((static_cast<std::size_t>(row) * columns_ + tx.shift - first_column_) * ns);
        right_at.push_back((ty.k * s.kw + tx.k) * tap_size());
      }
    }
    if (left_row.empty()) return;

    GradProduct product = {};
    product.left_row = left_row.data();
    product.right_at = right_at.data();
    product.left_stride = left_.stride();
    product.segments = static_cast<int>(left_row.size());
    product.depth = depth_;
    product.steps = slice.steps.image_sizes();

    const int first_channel = group_.first_in + panel * GRAD_LANES;
    GradScatter scatter = {};
    scatter.product_size = BLOCK_ROWS * GRAD_LANES;
    scatter.ns = ns;
    scatter.channels = std::min(BLOCK_PANELS * GRAD_LANES, group_.in - panel * GRAD_LANES);
    scatter.gx_x = static_cast<std::size_t>(s.sw) * s.in;
    scatter.gx_n = static_cast<std::size_t>(s.h) * s.w * s.in;
    scatter.inside_x = static_cast<std::size_t>(s.sw) * words;
    scatter.inside_n = static_cast<std::size_t>(s.h) * s.w * words;
    scatter.first = first_channel;

    task_scratch.restart();
    float* sums = static_cast<float*>(task_scratch.take(BLOCK_PANELS * scatter.product_size * sizeof(float)));
    scatter.sums = sums;
    const int xs = (s.w - 1 - phase) / s.sw + 1, block = BLOCK_ROWS / ns;
    kernels_.begin();
    for (int x = 0; x < xs; x += block) {
      scatter.xs = std::min(block, xs - x);
      product.rows = scatter.xs * ns;
      product.left = left_.at(static_cast<std::size_t>(x) * ns);
      product.left_sums = left_.sums(static_cast<std::size_t>(x) * ns);
      for (int c = 0; c < scatter.channels; c += GRAD_LANES) {
        product.right = right_.at((panel + c / GRAD_LANES) * panel_size());
        product.lanes = std::min(GRAD_LANES, scatter.channels - c);
        product.out = sums + c / GRAD_LANES * scatter.product_size;
        kernels_.product(product);
      }
      const std::size_t position = (static_cast<std::size_t>(slice.first) * s.h + y) * s.w + phase + x * s.sw;
      scatter.gx = gx_ + position * s.in + first_channel;
      scatter.inside = inside_ + position * words;
      kernels_.scatter(scatter);
    }
    kernels_.end();
  }

 private:
  // The first is 0, or less where a tap reaches out to the left.
  int find_columns() {
    int last = s.ow() - 1;
    for (int phase = 0; phase < phases(); ++phase) {
      for (const Tap& tap : taps_of(phase, s.kw, s.sw, s.pw)) {
        first_column_ = std::min(first_column_, tap.shift);
        last = std::max(last, tap.shift + (s.w - 1 - phase) / s.sw);
      }
    }
    return last - first_column_ + 1;
  }

  int phases() const { return std::min(s.sw, s.w); }  // columns of gx that different taps reach
  std::size_t tap_size() const { return static_cast<std::size_t>(depth_) * GRAD_LANES; }
  std::size_t panel_size() const { return s.kh * s.kw * tap_size(); }

  const ConvShape s;
  const Group group_;
  const GradKernels& kernels_;
  const std::uint64_t* inside_;
  float* gx_;
  int depth_, panels_;
  int first_column_ = 0, columns_;
  Left left_;
  Elements right_;
};

// Left: gy as [y][out channel][column][n]. Right: codes as [panel][y][phase][column][n][32], where columns one stride
// apart are neighbours, as those of gy are. A product's rows are out channels, and its segments rows of positions.
class WeightGradient {
 public:
  WeightGradient(const ConvShape& shape, const Group& group, const std::uint64_t* codes, bool zero_one, int slice,
                 const GradKernels& kernels, int threads)
      : s(shape),
        group_(group),
        kernels_(kernels),
        codes_(codes),
        zero_one_(zero_one),
        slice_(slice),
        panels_(divide_up(group.in, GRAD_LANES)),
        depth_(static_cast<int>(round_up(static_cast<std::size_t>(s.ow()) * slice, kernels.depth_step))),
        phases_(std::min(s.sw, s.kw)),
        columns_(s.ow() + (s.kw - 1) / s.sw),
        left_(kernels, static_cast<std::size_t>(s.oh()) * group.out, depth_),
        right_(kernels, panels_ * panel_size() + slack()),
        sums_(static_cast<float*>(scratch.take(panels_ * taps() * tap_size() * sizeof(float)))),
        rounds_(divide_up(s.oh() * depth_, 2 * SLICE_POSITIONS)),
        band_(divide_up(s.oh(), rounds_)) {
    right_.zero(panels_ * panel_size(), slack());
    const int parts = std::max(divide_up(TASKS_PER_THREAD * threads, panels_ * taps()),
                               static_cast<int>(divide_up(band_ * group.out * left_.row_bytes(), PART_BYTES)));
    part_rows_ = static_cast<int>(round_up(static_cast<std::size_t>(divide_up(group.out, parts)), GRAD_ROWS));
  }

  void pack(const Slice& slice, int y) {
    if (y < s.oh()) pack_gy(slice, y);
    if (y < s.h) pack_codes(slice, y);
  }

  int rounds() const { return rounds_; }
  int tasks() const { return divide_up(group_.out, part_rows_) * panels_ * taps(); }

  void run(const Slice& slice, int round, int task) {
    const int tap = task % taps(), panel = task / taps() % panels_, first = task / taps() / panels_ * part_rows_;
    const int ky = tap / s.kw, kx = tap % s.kw;
    std::vector<std::size_t> left_row, right_at;
    for (int oy = round * band_; oy < std::min(s.oh(), (round + 1) * band_); ++oy) {
      const int y = oy * s.sh + ky - s.ph;
      if (y < 0 || y >= s.h) continue;
      left_row.push_back(static_cast<std::size_t>(oy) * group_.out + first);
      right_at.push_back((y * phases_ + kx % s.sw) * line_size() + kx / s.sw * column_size());
    }
    GradProduct product = {};
    product.left = left_.at(0);
    product.right = right_.at(panel * panel_size());
    product.left_row = left_row.data();
    product.right_at = right_at.data();
    product.left_stride = left_.stride();
    product.left_sums = left_.sums(0);
    product.steps = slice.steps.channel_sizes(group_.first_out + first);
    product.segments = static_cast<int>(left_row.size());
    product.depth = depth_;
    product.rows = std::min(part_rows_, group_.out - first);
    product.lanes = std::min(GRAD_LANES, group_.in - panel * GRAD_LANES);
    product.out = sums_ + (panel * taps() + tap) * tap_size() + static_cast<std::size_t>(first) * GRAD_LANES;
    product.adds = slice.first > 0 || round > 0;
    kernels_.begin();
    kernels_.product(product);
    kernels_.end();
  }

  // Sums to gradients, for sixteen outputs of a panel: few runs of memory are read side by side, and those of the next
  // panel are asked for.
  int finishes() const { return panels_ * divide_up(group_.out, GRAD_ROWS); }
  void finish(float bound, int task) const {
    const int panel = task % panels_, first = task / panels_ * GRAD_ROWS;
    const int lanes = std::min(GRAD_LANES, group_.in - panel * GRAD_LANES), size = lanes * taps();
    float gathered[GRAD_LANES * GRAD_TAPS];
    for (int o = first; o < std::min(first + GRAD_ROWS, group_.out); ++o) {
      const float* sum = sums_ + panel * taps() * tap_size() + static_cast<std::size_t>(o) * GRAD_LANES;
      for (int tap = 0; tap < taps(); ++tap, sum += tap_size()) {
        __builtin_prefetch(sum + taps() * tap_size());
        __builtin_prefetch(sum + taps() * tap_size() + 16);
        for (int lane = 0; lane < lanes; ++lane) gathered[lane * taps() + tap] = sum[lane];
      }
      const std::size_t at = (static_cast<std::size_t>(o) * group_.in + panel * GRAD_LANES) * taps();
      const float* proxy = group_.weight + at;
      float* grad = group_.grad + at;
      for (int k = 0; k < size; k += 16) {
        __builtin_prefetch(proxy + size + k);
        __builtin_prefetch(grad + size + k, 1);
      }
      for (int k = 0; k < size; ++k) {
        const float value = gathered[k];
        grad[k] = std::fabs(proxy[k]) <= bound ? value : 0.0F;
      }
    }
  }

 private:
  void pack_gy(const Slice& slice, int y) {
    const int oh = s.oh(), ow = s.ow();
    std::vector<const float*> from(static_cast<std::size_t>(ow) * slice_);
    for (int x = 0; x < ow; ++x) {
      for (int n = 0; n < slice.images; ++n) {
        from[x * slice_ + n] = slice.gy + ((static_cast<std::size_t>(n) * oh + y) * ow + x) * s.out + group_.first_out;
      }
    }
    kernels_.pack_columns(
        from.data(), ow * slice_, group_.out,
        left_.rows(static_cast<std::size_t>(y) * group_.out, slice.steps.channel_rates(group_.first_out)));
  }

  void pack_codes(const Slice& slice, int y) {
    const int words = divide_up(s.in, 64);
    std::vector<const std::uint64_t*> from(static_cast<std::size_t>(phases_) * columns_ * slice_);
    const std::uint64_t** at = from.data();
    for (int phase = 0; phase < phases_; ++phase) {
      for (int column = 0; column < columns_; ++column, at += slice_) {
        const int x = column * s.sw + phase - s.pw;
        if (x < 0 || x >= s.w) continue;
        for (int n = 0; n < slice.images; ++n) {
          at[n] = codes_ + ((static_cast<std::size_t>(slice.first + n) * s.h + y) * s.w + x) * words;
        }
      }
    }
    for (int panel = 0; panel < panels_; ++panel) {
      kernels_.pack_codes(from.data(), static_cast<int>(from.size()), group_.first_in + panel * GRAD_LANES, words,
                          zero_one_, right_.at(panel * panel_size() + y * phases_ * line_size()));
    }
  }

  int taps() const { return s.kh * s.kw; }
  std::size_t tap_size() const { return round_up(group_.out, GRAD_ROWS) * GRAD_LANES; }
  std::size_t column_size() const { return static_cast<std::size_t>(slice_) * GRAD_LANES; }
  std::size_t line_size() const { return columns_ * column_size(); }
  std::size_t panel_size() const { return s.h * phases_ * line_size(); }
  std::size_t slack() const {
    return static_cast<std::size_t>(kernels_.depth_step) * GRAD_LANES;
  }  // a depth rounded up

  const ConvShape s;
  const Group group_;
  const GradKernels& kernels_;
  const std::uint64_t* codes_;
  bool zero_one_;
  int slice_, panels_, depth_;
  int phases_, columns_;
  Left left_;
  Elements right_;
  float* sums_;  // [panel][tap][out][32]
  int rounds_, band_, part_rows_;
};

// Images of a slice: whole dwords of them, and such that a row needs no rounding up if that takes few more.
int slice_of(const ConvShape& s, const GradKernels& kernels) {
  const int step = kernels.packed;
  const int most = std::max(1, std::min(BLOCK_ROWS, SLICE_POSITIONS / (s.oh() * s.ow())));
  const int least = static_cast<int>(round_up(static_cast<std::size_t>(divide_up(s.n, divide_up(s.n, most))), step));
  for (int slice = least; slice <= std::min({s.n, 2 * least, BLOCK_ROWS}); slice += step) {
    if (slice * s.ow() % kernels.depth_step == 0) return slice;
  }
  return least;
}

// Number `task` of all tasks, those of one gradient after those of another.
template <typename List, typename Count, typename Body>
void dispatch(const List& list, const Count& count, int task, const Body& body) {
  for (const auto& one : list) {
    if (task < count(*one)) return body(*one, task);
    task -= count(*one);
  }
}

template <typename List, typename Count, typename Body>
void run_all(Team& team, const List& list, const Count& count, const Body& body) {
  int tasks = 0;
  for (const auto& one : list) tasks += count(*one);
  team.run(tasks, [&](int task) { dispatch(list, count, task, body); });
}

// Task 0 of each, task 1 of each, and so on: groups write side by side into the same lines of memory.
template <typename List, typename Body>
void run_in_turns(Team& team, const List& list, const Body& body) {
  int most = 0;
  for (const auto& one : list) most = std::max(most, one->tasks());
  const int count = static_cast<int>(list.size());
  team.run(most * count, [&](int task) {
    const auto& one = list[static_cast<std::size_t>(task % count)];
    if (task / count < one->tasks()) body(*one, task / count);
  });
}

}  // namespace

void gradients(const ConvShape& s, const GradSource& gy, const float* weight, const float* tail,
               const std::optional<ToInput>& to_input, const std::optional<ToWeight>& to_weight,
               const GradKernels& kernels, Team& team) {
  if (s.kh * s.kw > GRAD_TAPS) throw std::invalid_argument("a kernel of this size has no native gradients");
  scratch.restart();
  const int size = slice_of(s, kernels);
  std::vector<std::unique_ptr<InputGradient>> inputs;
  std::vector<std::unique_ptr<WeightGradient>> weights;
  for (const Group& group :
       groups_of(s, weight, tail, to_weight ? to_weight->gw : nullptr, to_weight ? to_weight->gtail : nullptr)) {
    if (to_input) {
      inputs.push_back(std::make_unique<InputGradient>(s, group, to_input->inside, to_input->gx, size, kernels));
    }
    if (to_weight) {
      weights.push_back(std::make_unique<WeightGradient>(s, group, to_weight->codes, to_weight->zero_one, size, kernels,
                                                         team.threads()));
    }
  }
  run_all(
      team, inputs, [](const InputGradient& one) { return one.panels(); },
      [](const InputGradient& one, int panel) { one.pack_weights(panel); });

  int rounds = 0;
  for (const auto& one : weights) rounds = std::max(rounds, one->rounds());
  Steps steps(s, kernels);
  for (int first = 0; first < s.n; first += size) {
    Slice slice = {first, std::min(size, s.n - first), nullptr, steps};
    slice.gy = gy(first, slice.images);
    steps.find(slice.gy, slice.images, team);
    team.run(std::max(s.oh(), s.h), [&](int y) {
      for (const auto& one : inputs) one->pack(slice, y);
      for (const auto& one : weights) one->pack(slice, y);
    });
    run_in_turns(team, inputs, [&](InputGradient& one, int task) { one.run(slice, task); });
    for (int round = 0; round < rounds; ++round) {
      run_all(
          team, weights, [round](const WeightGradient& one) { return round < one.rounds() ? one.tasks() : 0; },
          [&](WeightGradient& one, int task) { one.run(slice, round, task); });
    }
  }
  run_all(
      team, weights, [](const WeightGradient& one) { return one.finishes(); },
      [&](const WeightGradient& one, int task) { one.finish(to_weight->bound, task); });
}

void grad_input(const ConvShape& shape, const float* gy, const float* weight, const float* tail,
                const std::uint64_t* inside, float* gx, const GradKernels& kernels, Team& team) {
  gradients(shape, whole(shape, gy), weight, tail, ToInput{inside, gx}, std::nullopt, kernels, team);
}

void grad_weight(const ConvShape& shape, const float* gy, const std::uint64_t* codes, bool zero_one,
                 const float* weight, const float* tail, float bound, float* gw, float* gtail,
                 const GradKernels& kernels, Team& team) {
  gradients(shape, whole(shape, gy), weight, tail, std::nullopt, ToWeight{codes, zero_one, bound, gw, gtail}, kernels,
            team);
}

GradSource whole(const ConvShape& shape, const float* gy) {
  const std::size_t image = static_cast<std::size_t>(shape.oh()) * shape.ow() * shape.out;
  return [gy, image](int first, int) { return gy + first * image; };
}

}  // namespace ftbnn::training
