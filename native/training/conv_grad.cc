// Both gradients are products of a left operand made from gy and a right one of -1, 0 and +1.
//
// Images go through in slices, and within a slice the image is the fastest index: a position (y, x) is a run of n
// neighbours. So a row of positions is one run of x * n, whatever the size of the image; a tap shifts it by whole
// positions; and neighbours of the depth, which bf16 takes by pairs, never fall on different sides of a border.
#include "training/conv_grad.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "base/aligned.h"

namespace ftbnn::training {

namespace {

// A core's second-level cache (1 or 2 MiB) should hold the operands of a run of tasks.
constexpr std::size_t SLICE_BYTES = 1 << 20;  // input gradient: gy of a slice
constexpr int BAND_POSITIONS = 4096;  // weight gradient: codes of a panel are half as many KiB, or as many as floats
constexpr std::size_t PART_BYTES = 1 << 19;  // weight gradient: gy of a part of the channels
constexpr int BLOCK_ROWS = 224;              // of sums on the stack; a multiple of the kernels' tiles, 14 and 32
constexpr int TASKS_PER_THREAD = 4;

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

template <typename T>
T divide_up(T a, T b) {
  return (a + b - 1) / b;
}

// Memory on a cache line that a thread keeps from call to call: fresh pages cost more than what is done with them.
class Scratch {
 public:
  void* take(std::size_t bytes) {
    if (bytes > size_) {
      data_.reset();
      size_ = round_up(bytes, CACHE_LINE);
      data_.reset(std::aligned_alloc(CACHE_LINE, size_));
      if (!data_) {
        size_ = 0;
        throw std::bad_alloc();
      }
    }
    return data_.get();
  }

 private:
  struct Free {
    void operator()(void* pointer) const { std::free(pointer); }
  };
  std::unique_ptr<void, Free> data_;
  std::size_t size_ = 0;
};

thread_local Scratch left_scratch, right_scratch, sums_scratch;

// Elements of either kind, addressed by number.
struct Elements {
  Elements(const GradKernels& kernels, Scratch& scratch, std::size_t count) : bytes(kernels.pairs ? 2 : sizeof(float)) {
    data = static_cast<char*>(scratch.take(count * bytes));
  }
  void* at(std::size_t index) const { return data + index * bytes; }
  void zero(std::size_t index, std::size_t count) const { std::fill_n(data + index * bytes, count * bytes, char{0}); }
  std::size_t bytes;
  char* data;
};

// Rows a large power of two apart fall into the same few lines of the first-level cache: one line more in between.
std::size_t row_stride(const GradKernels& kernels, int depth) {
  const std::size_t bytes = kernels.pairs ? 2 : sizeof(float), stride = static_cast<std::size_t>(depth);
  return stride * bytes % 1024 == 0 ? stride + CACHE_LINE / bytes : stride;
}

// Signs of a group's proxies, [panel][tap][depth][32].
Elements pack_weights(const ConvShape& s, const Group& group, const GradKernels& kernels, int depth, Team& team) {
  const int panels = divide_up(group.in, GRAD_LANES), taps = s.kh * s.kw;
  const std::size_t tap_size = static_cast<std::size_t>(depth) * GRAD_LANES;
  const Elements signs(kernels, right_scratch, panels * taps * tap_size);
  team.run(panels, [&](int panel) {
    const int first = panel * GRAD_LANES;
    kernels.pack_signs(group.weight + first * taps, static_cast<std::size_t>(group.in) * taps, group.out,
                       std::min(GRAD_LANES, group.in - first), taps, signs.at(panel * taps * tap_size), tap_size,
                       depth);
  });
  return signs;
}

// Taps that reach coordinate `at` of the input: those k with (at + pad - k) divisible by the stride.
struct Tap {
  int k, shift;  // the source is (at + pad - k) / stride = shift + at / stride
};

std::vector<Tap> taps_of(int phase, int size, int stride, int pad) {
  std::vector<Tap> taps;
  for (int k = 0; k < size; ++k) {
    if ((phase + pad - k) % stride == 0) taps.push_back({k, (phase + pad - k) / stride});
  }
  return taps;
}

void grad_input(const ConvShape& s, const Group& group, const float* gy, const std::uint64_t* inside, float* gx,
                const GradKernels& kernels, Team& team) {
  const int oh = s.oh(), ow = s.ow(), words = divide_up(s.in, 64), taps = s.kh * s.kw;
  const int depth = static_cast<int>(round_up(group.out, kernels.depth_step));
  const int panels = divide_up(group.in, GRAD_LANES);
  const std::size_t stride = row_stride(kernels, depth), tap_size = static_cast<std::size_t>(depth) * GRAD_LANES;
  const Elements signs = pack_weights(s, group, kernels, depth, team);

  // Columns of gy with as many zeros on both sides as the taps reach out.
  std::vector<std::vector<Tap>> taps_x;
  int first = 0, last = ow - 1;
  for (int phase = 0; phase < std::min(s.sw, s.w); ++phase) {
    taps_x.push_back(taps_of(phase, s.kw, s.sw, s.pw));
    for (const Tap& tap : taps_x.back()) {
      first = std::min(first, tap.shift);
      last = std::max(last, tap.shift + (s.w - 1 - phase) / s.sw);
    }
  }
  const int columns = last - first + 1, phases = static_cast<int>(taps_x.size());

  const std::size_t image = static_cast<std::size_t>(oh) * columns * stride * (kernels.pairs ? 2 : sizeof(float));
  const int most = std::max(1, std::min(BLOCK_ROWS, static_cast<int>(SLICE_BYTES / image)));
  const int slices = divide_up(s.n, most), slice = divide_up(s.n, slices);
  const Elements left(kernels, left_scratch, (static_cast<std::size_t>(oh) * columns * slice + GRAD_ROWS) * stride);

  for (int n0 = 0; n0 < s.n; n0 += slice) {
    const int ns = std::min(slice, s.n - n0);
    const auto at = [&](int y, int column) { return (static_cast<std::size_t>(y) * columns + column) * ns * stride; };
    team.run(oh, [&](int y) {
      const std::size_t step = static_cast<std::size_t>(oh) * ow * s.out;
      left.zero(at(y, 0), at(0, -first));
      for (int x = 0; x < ow; ++x) {
        const float* from = gy + ((static_cast<std::size_t>(n0) * oh + y) * ow + x) * s.out + group.first_out;
        kernels.pack_rows(from, step, ns, group.out, left.at(at(y, x - first)), stride, depth);
      }
      left.zero(at(y, ow - first), at(0, last - ow + 1));
    });

    team.run(panels * s.h * phases, [&](int task) {
      const int phase = task % phases, y = task / phases % s.h, panel = task / phases / s.h;
      std::vector<std::size_t> left_at, right_at;
      for (const Tap& ty : taps_of(y % s.sh, s.kh, s.sh, s.ph)) {
        const int row = ty.shift + y / s.sh;
        if (row < 0 || row >= oh) continue;
        for (const Tap& tx : taps_x[phase]) {
          left_at.push_back(at(row, tx.shift - first));
          right_at.push_back((ty.k * s.kw + tx.k) * tap_size);
        }
      }
      if (left_at.empty()) return;
      alignas(CACHE_LINE) float sums[BLOCK_ROWS * GRAD_LANES];
      const int xs = (s.w - 1 - phase) / s.sw + 1, block = BLOCK_ROWS / ns;
      const int channel = group.first_in + panel * GRAD_LANES;
      kernels.begin();
      for (int x = 0; x < xs; x += block) {
        GradProduct product = {};
        product.left = left.at(static_cast<std::size_t>(x) * ns * stride);
        product.right = signs.at(panel * taps * tap_size);
        product.left_at = left_at.data();
        product.right_at = right_at.data();
        product.left_stride = stride;
        product.segments = static_cast<int>(left_at.size());
        product.depth = depth;
        product.rows = std::min(block, xs - x) * ns;
        product.lanes = std::min(GRAD_LANES, group.in - panel * GRAD_LANES);
        product.out = sums;
        kernels.product(product);

        const std::size_t position = (static_cast<std::size_t>(n0) * s.h + y) * s.w + phase + x * s.sw;
        GradScatter scatter = {};
        scatter.sums = sums;
        scatter.xs = std::min(block, xs - x);
        scatter.ns = ns;
        scatter.lanes = product.lanes;
        scatter.gx = gx + position * s.in + channel;
        scatter.gx_x = static_cast<std::size_t>(s.sw) * s.in;
        scatter.gx_n = static_cast<std::size_t>(s.h) * s.w * s.in;
        scatter.inside = inside + position * words;
        scatter.inside_x = static_cast<std::size_t>(s.sw) * words;
        scatter.inside_n = static_cast<std::size_t>(s.h) * s.w * words;
        scatter.first = channel;
        kernels.scatter(scatter);
      }
      kernels.end();
    });
  }
}

void grad_weight(const ConvShape& s, const Group& group, const float* gy, const std::uint64_t* codes, bool zero_one,
                 float bound, const GradKernels& kernels, Team& team) {
  const int oh = s.oh(), ow = s.ow(), words = divide_up(s.in, 64), taps = s.kh * s.kw;
  const int panels = divide_up(group.in, GRAD_LANES);
  const int step = kernels.pairs ? 2 : 1;
  const int slices = divide_up(s.n, std::max(1, BAND_POSITIONS / (oh * ow)));
  const int least = static_cast<int>(round_up(divide_up(s.n, slices), step));
  int slice = least;  // or a little more, if the depth then needs no rounding up
  while (slice * ow % kernels.depth_step != 0 && slice < std::min(s.n, 2 * least)) slice += step;
  if (slice * ow % kernels.depth_step != 0) slice = least;

  const int depth = static_cast<int>(round_up(ow * slice, kernels.depth_step));
  const std::size_t stride = row_stride(kernels, depth), row_size = group.out * stride;
  const Elements left(kernels, left_scratch, oh * row_size + GRAD_ROWS * stride);

  // Codes [panel][y][phase][column][n][32]: columns one stride apart are neighbours, as those of gy are.
  const int phases = std::min(s.sw, s.kw), columns = ow + (s.kw - 1) / s.sw;
  const std::size_t column_size = static_cast<std::size_t>(slice) * GRAD_LANES, line_size = columns * column_size;
  const std::size_t panel_size = s.h * phases * line_size;
  const std::size_t slack = static_cast<std::size_t>(kernels.depth_step) * GRAD_LANES;  // what a rounded depth reads
  const Elements right(kernels, right_scratch, panels * panel_size + slack);
  right.zero(panels * panel_size, slack);

  const std::size_t tap_size = round_up(group.out, GRAD_ROWS) * GRAD_LANES;
  float* sums = static_cast<float*>(sums_scratch.take(panels * taps * tap_size * sizeof(float)));
  const int bands = divide_up(oh * depth, 2 * BAND_POSITIONS), band_rows = divide_up(oh, bands);
  const int parts = std::max(divide_up(TASKS_PER_THREAD * team.threads(), panels * taps),
                             static_cast<int>(divide_up(band_rows * row_size * left.bytes, PART_BYTES)));
  const int part_rows = static_cast<int>(round_up(divide_up(group.out, parts), GRAD_ROWS));

  for (int n0 = 0; n0 < s.n; n0 += slice) {
    const int ns = std::min(slice, s.n - n0);
    team.run(oh + s.h, [&](int task) {
      if (task < oh) {
        std::vector<const float*> from;
        for (int x = 0; x < ow; ++x) {
          for (int n = 0; n < slice; ++n) {
            const std::size_t position = (static_cast<std::size_t>(n0 + n) * oh + task) * ow + x;
            from.push_back(n < ns ? gy + position * s.out + group.first_out : nullptr);
          }
        }
        kernels.pack_columns(from.data(), ow * slice, group.out, left.at(task * row_size), stride, depth);
        return;
      }
      const int y = task - oh;
      std::vector<const std::uint64_t*> from;
      for (int phase = 0; phase < phases; ++phase) {
        for (int column = 0; column < columns; ++column) {
          const int x = column * s.sw + phase - s.pw;
          for (int n = 0; n < slice; ++n) {
            const std::size_t position = (static_cast<std::size_t>(n0 + n) * s.h + y) * s.w + x;
            from.push_back(n < ns && x >= 0 && x < s.w ? codes + position * words : nullptr);
          }
        }
      }
      for (int panel = 0; panel < panels; ++panel) {
        kernels.pack_codes(from.data(), static_cast<int>(from.size()), group.first_in + panel * GRAD_LANES, words,
                           zero_one, right.at(panel * panel_size + y * phases * line_size));
      }
    });

    for (int band = 0; band < oh; band += band_rows) {
      team.run(parts * panels * taps, [&](int task) {
        const int tap = task % taps, panel = task / taps % panels, part = task / taps / panels;
        const int ky = tap / s.kw, kx = tap % s.kw, first = part * part_rows;
        if (first >= group.out) return;
        std::vector<std::size_t> left_at, right_at;
        for (int oy = band; oy < std::min(oh, band + band_rows); ++oy) {
          const int y = oy * s.sh + ky - s.ph;
          if (y < 0 || y >= s.h) continue;
          left_at.push_back(oy * row_size + first * stride);
          right_at.push_back(((y * phases + kx % s.sw) * static_cast<std::size_t>(columns) + kx / s.sw) * column_size);
        }
        GradProduct product = {};
        product.left = left.at(0);
        product.right = right.at(panel * panel_size);
        product.left_at = left_at.data();
        product.right_at = right_at.data();
        product.left_stride = stride;
        product.segments = static_cast<int>(left_at.size());
        product.depth = depth;
        product.rows = std::min(part_rows, group.out - first);
        product.lanes = std::min(GRAD_LANES, group.in - panel * GRAD_LANES);
        product.out = sums + (panel * taps + tap) * tap_size + static_cast<std::size_t>(first) * GRAD_LANES;
        product.adds = n0 > 0 || band > 0;
        kernels.begin();
        kernels.product(product);
        kernels.end();
      });
    }
  }

  team.run(group.out, [&](int o) {
    const std::size_t at = static_cast<std::size_t>(o) * group.in * taps;
    for (int c = 0; c < group.in; ++c) {
      const float* sum =
          sums + (c / GRAD_LANES * taps) * tap_size + static_cast<std::size_t>(o) * GRAD_LANES + c % GRAD_LANES;
      const float* proxy = group.weight + at + c * taps;
      float* grad = group.grad + at + c * taps;
      for (int tap = 0; tap < taps; ++tap) {
        grad[tap] = proxy[tap] <= bound && proxy[tap] >= -bound ? sum[tap * tap_size] : 0.0F;
      }
    }
  });
}

}  // namespace

double ConvShape::macs() const {
  double macs = 0;
  for (const Group& g : groups_of(*this, nullptr, nullptr, nullptr, nullptr)) macs += static_cast<double>(g.in) * g.out;
  return macs * n * oh() * ow() * kh * kw;
}

void grad_input(const ConvShape& shape, const float* gy, const float* weight, const float* tail,
                const std::uint64_t* inside, float* gx, const GradKernels& kernels, Team& team) {
  for (const Group& group : groups_of(shape, weight, tail, nullptr, nullptr)) {
    grad_input(shape, group, gy, inside, gx, kernels, team);
  }
}

void grad_weight(const ConvShape& shape, const float* gy, const std::uint64_t* codes, bool zero_one,
                 const float* weight, const float* tail, float bound, float* gw, float* gtail,
                 const GradKernels& kernels, Team& team) {
  for (const Group& group : groups_of(shape, weight, tail, gw, gtail)) {
    grad_weight(shape, group, gy, codes, zero_one, bound, kernels, team);
  }
}

}  // namespace ftbnn::training
