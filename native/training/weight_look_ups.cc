#include "training/weight_look_ups.h"

namespace ftbnn::training {

namespace {

constexpr int MOST_TABLES = 51;  // of a row of them, that a first-level cache keeps, and 16 bits the sums of

thread_local Scratch task_scratch;  // of whoever runs a task

int length_of(const BatchShape& s, int slice) { return divide_up(s.ow * slice, TABLE_TERMS); }

// Whole dwords, as gradients are packed.
int depth_of(const BatchShape& s, int slice) {
  return static_cast<int>(round_up(static_cast<std::size_t>(length_of(s, slice)) * TABLE_TERMS, 4));
}

std::int32_t steps_of(const std::uint8_t* bytes, int count) {
  std::int32_t sum = 0;
  for (int k = 0; k < count; ++k) sum += bytes[k] - GRAD_ZERO;
  return sum;
}

}  // namespace

WeightLookUps::WeightLookUps(const BatchShape& shape, const GradGroup& group, const std::uint64_t* codes, bool zero_one,
                             int slice, const GradKernels& kernels, Scratch& scratch)
    : WeightGradient(shape, group, codes, zero_one, slice, kernels, depth_of(shape, slice), scratch),
      length_(length_of(shape, slice)),
      right_(scratch.take<char>(panels_ * panel_bytes())) {}

void WeightLookUps::pack_codes(const Slice& slice, int y) {
  std::vector<const std::uint64_t*> from(static_cast<std::size_t>(length_) * TABLE_TERMS);
  for (int kx = 0; kx < s.kw; ++kx) {
    for (int x = 0; x < s.ow; ++x) find_codes(slice, y, x * s.sw + kx - s.pw, from.data() + x * slice_);
    for (int panel = 0; panel < panels_; ++panel) {
      kernels_.tables->pack_codes(from.data(), static_cast<int>(from.size()), group_.first_in + panel * GRAD_LANES,
                                  divide_up(s.in, 64), right_ + panel * panel_bytes() + (y * s.kw + kx) * line_bytes());
    }
  }
}

void WeightLookUps::run(const Slice& slice, int round, int task) {
  const int first = task * ROWS, rows = std::min(ROWS, group_.out - first);
  task_scratch.restart();
  auto* tables = task_scratch.take<char>(MOST_TABLES * ROWS * TABLE_BYTES);
  auto* totals = task_scratch.take<std::int32_t>(panels_ * taps() * totals_size());
  std::fill_n(totals, panels_ * taps() * totals_size(), 0);

  std::vector<Stretch> some;
  int room = MOST_TABLES;
  for (int oy = first_row(round); oy < last_row(round); ++oy) {
    for (int at = 0; at < length_;) {
      const int length = std::min(length_ - at, room);
      some.push_back({oy, at, length});
      at += length;
      room -= length;
      if (room > 0) continue;
      add(some, first, rows, tables, totals);
      some.clear();
      room = MOST_TABLES;
    }
  }
  add(some, first, rows, tables, totals);

  std::vector<std::int32_t> extra(static_cast<std::size_t>(taps()) * ROWS), of_taps(taps());
  for (int r = 0; r < rows && !zero_one_; ++r) {
    find_extra(round, first + r, of_taps.data());
    for (int tap = 0; tap < taps(); ++tap) extra[tap * ROWS + r] = of_taps[tap];
  }
  const bool adds = slice.first > 0 || round > 0;
  for (int tap = 0; tap < taps(); ++tap) {
    for (int panel = 0; panel < panels_; ++panel) {
      kernels_.tables->finish({totals + (tap * panels_ + panel) * totals_size(), rows, extra.data() + tap * ROWS,
                               slice.rounding.channel_sizes(group_.first_out + first), sums(panel, tap, first), adds});
    }
  }
}

void WeightLookUps::add(const std::vector<Stretch>& some, int first, int rows, char* tables,
                        std::int32_t* totals) const {
  constexpr std::size_t step = ROWS * TABLE_BYTES;
  char* to = tables;
  for (const Stretch& stretch : some) {
    const std::size_t row = static_cast<std::size_t>(stretch.oy) * group_.out + first;
    const char* numbers = static_cast<const char*>(left_.at(row)) + stretch.first * TABLE_TERMS;
    kernels_.tables->build(numbers, left_.stride(), rows, stretch.length, zero_one_, to, step);
    to += stretch.length * step;
  }
  std::vector<std::size_t> columns;  // [kx][panel]
  for (int kx = 0; kx < s.kw; ++kx) {
    for (int panel = 0; panel < panels_; ++panel) columns.push_back(panel * panel_bytes() + kx * line_bytes());
  }
  std::vector<TableRun> runs;
  for (int ky = 0; ky < s.kh; ++ky) {
    runs.clear();
    std::size_t left = 0;
    for (const Stretch& stretch : some) {
      const int y = stretch.oy * s.sh + ky - s.ph;
      if (y >= 0 && y < s.h) {
        runs.push_back({left, y * s.kw * line_bytes() + stretch.first * TABLE_BYTES, stretch.length});
      }
      left += stretch.length * step;
    }
    if (runs.empty()) continue;
    kernels_.tables->add({tables, step, right_, columns.data(), runs.data(), static_cast<int>(runs.size()), rows,
                          static_cast<int>(columns.size()), totals + ky * columns.size() * totals_size(),
                          totals_size()});
  }
}

void WeightLookUps::find_extra(int round, int out, std::int32_t* of_taps) const {
  std::fill_n(of_taps, taps(), 0);
  for (int oy = first_row(round); oy < last_row(round); ++oy) {
    const std::size_t row = static_cast<std::size_t>(oy) * group_.out + out;
    const auto* bytes = static_cast<const std::uint8_t*>(left_.at(row));
    for (int kx = 0; kx < s.kw; ++kx) {
      const auto clamped = [&](int x) { return std::clamp(x, 0, s.ow) * slice_; };
      const int from = clamped(divide_up(std::max(0, s.pw - kx), s.sw));
      const int to = std::max(from, s.w + s.pw - kx <= 0 ? 0 : clamped((s.w - 1 + s.pw - kx) / s.sw + 1));
      const std::int32_t sum = steps_of(bytes, from) + steps_of(bytes + to, s.ow * slice_ - to);
      for (int ky = 0; ky < s.kh; ++ky) {
        const int y = oy * s.sh + ky - s.ph;
        if (y >= 0 && y < s.h) of_taps[ky * s.kw + kx] -= sum;
      }
    }
  }
}

}  // namespace ftbnn::training
