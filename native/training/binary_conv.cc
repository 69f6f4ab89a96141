#include "training/binary_conv.h"

#include <algorithm>

namespace ftbnn::training {

namespace {

constexpr float ONES[PANEL] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                               1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
constexpr float ZEROS[PANEL] = {};

std::size_t z(int value) { return static_cast<std::size_t>(value); }
int words_of(int channels) { return (channels + 63) / 64; }

}  // namespace

int BinaryConv::limit(const ConvShape& s) { return (s.in - s.in / s.groups * (s.groups - 1)) * s.kh * s.kw; }

BinaryConv::BinaryConv(const ConvShape& shape, bool zero_one, const float* weight, const float* tail, Isa isa,
                       Team& team)
    : shape_(shape),
      zero_one_(zero_one),
      kernels_(kernels_for(isa)),
      rows_(shape.kh * shape.kw <= 64 ? block_rows_for(isa) : block_rows_for(Isa::portable)),
      by_tiles_(by_tiles(shape, isa)),
      plane_rows_((shape.oh() - 1) * shape.sh + shape.kh),
      plane_columns_((shape.ow() - 1) * shape.sw + shape.kw) {
  const int in = shape.in / shape.groups, out = shape.out / shape.groups;
  std::size_t size = 0;
  for (int g = 0; g < shape.groups; ++g) {
    const bool last = g == shape.groups - 1;
    Group group{g * in, last ? shape.in - g * in : in, g * out, last ? shape.out - g * out : out, 0, panels_, size};
    group.words = words_of(group.in_size);
    const int panels = (group.out_size + PANEL - 1) / PANEL;
    panels_ += panels;
    size += z(panels) * z(shape.kh * shape.kw) * z(group.words) * PANEL;
    groups_.push_back(group);
  }
  weights_ = AlignedArray<std::uint64_t>(size);
  pack_weights(weight, tail, team);
  if (!by_tiles_ && !zero_one) find_bases(team);
}

void BinaryConv::pack_weights(const float* weight, const float* tail, Team& team) {
  const int taps = shape_.kh * shape_.kw, outputs = shape_.out / shape_.groups;
  constexpr int CHANNELS = 8;  // of a task
  team.run((shape_.out + CHANNELS - 1) / CHANNELS, [&](int task) {
    for (int o = task * CHANNELS; o < std::min(shape_.out, (task + 1) * CHANNELS); ++o) {
      const Group& group = groups_[z(std::min(o / outputs, shape_.groups - 1))];
      const bool in_tail = tail != nullptr && group.out_first == outputs * (shape_.groups - 1);
      const int row = o - group.out_first;
      const float* proxies = (in_tail ? tail : weight) + z(in_tail ? row : o) * z(group.in_size * taps);
      std::uint64_t* panel = weights_.data() + group.weights_at + z(row / PANEL) * z(taps * group.words) * PANEL;
      rows_.pack_proxies(proxies, group.in_size, taps, panel + row % PANEL, PANEL);
    }
  });
}

void BinaryConv::find_bases(Team& team) {
  const ConvShape& s = shape_;
  row_class_ = border_classes(s.oh(), s.sh, s.kh, s.ph, s.h, row_kinds_);
  column_class_ = border_classes(s.ow(), s.sw, s.kw, s.pw, s.w, column_kinds_);
  const std::size_t kinds = row_kinds_.size() * column_kinds_.size();
  bases_ = AlignedArray<std::int32_t>(z(panels_) * kinds * PANEL);
  team.run(panels_, [&](int panel) {
    const Group& group =
        *std::find_if(groups_.rbegin(), groups_.rend(), [&](const Group& g) { return g.first_panel <= panel; });
    const std::size_t size = z(s.kh * s.kw * group.words) * PANEL;
    const std::uint64_t* weights = weights_.data() + group.weights_at + z(panel - group.first_panel) * size;
    border_bases(weights, group.in_size, s.kh, s.kw, row_kinds_, column_kinds_,
                 bases_.data() + z(panel) * kinds * PANEL);
  });
}

Epilogue BinaryConv::as_they_are() const {
  Epilogue end{};
  end.scale = ONES;
  end.shift = ZEROS;
  end.out_stride = z(shape_.out);
  end.act = Act::none;
  return end;
}

// The channels of one group with the image's border: [plane_rows][plane_columns][words].
void BinaryConv::fill_plane(const Group& group, const std::uint64_t* codes, std::uint64_t* plane) const {
  const ConvShape& s = shape_;
  const int words = words_of(s.in), first = group.in_first / 64, shift = group.in_first % 64;
  const int tail = group.in_size % 64;
  const std::uint64_t tail_mask = tail == 0 ? ~std::uint64_t{0} : (std::uint64_t{1} << tail) - 1;
  std::fill_n(plane, z(plane_rows_) * z(plane_columns_) * z(group.words), 0);
  const int columns = std::min(s.w, plane_columns_ - s.pw);
  for (int y = 0; y < std::min(s.h, plane_rows_ - s.ph); ++y) {
    const std::uint64_t* from = codes + z(y) * z(s.w) * z(words);
    std::uint64_t* to = plane + (z(y + s.ph) * z(plane_columns_) + z(s.pw)) * z(group.words);
    if (s.groups == 1) {
      std::copy_n(from, z(std::max(columns, 0)) * z(words), to);
      continue;
    }
    for (int x = 0; x < columns; ++x, from += words, to += group.words) {
      for (int k = 0; k < group.words; ++k) {
        std::uint64_t word = from[first + k] >> shift;
        if (shift != 0 && first + k + 1 < words) word |= from[first + k + 1] << (64 - shift);
        to[k] = k == group.words - 1 ? word & tail_mask : word;
      }
    }
  }
}

// Ones in the window of every output: [oh][ow].
void BinaryConv::count_ones(const Group& group, const std::uint64_t* plane, std::int32_t* ones) const {
  const ConvShape& s = shape_;
  std::vector<std::int32_t> here(z(plane_rows_) * z(plane_columns_));
  for (std::int32_t& count : here) {
    count = 0;
    for (int k = 0; k < group.words; ++k) count += __builtin_popcountll(*plane++);
  }
  for (int y = 0; y < s.oh(); ++y) {
    for (int x = 0; x < s.ow(); ++x) {
      std::int32_t sum = 0;
      for (int ky = 0; ky < s.kh; ++ky) {
        const std::int32_t* row = here.data() + z(y * s.sh + ky) * z(plane_columns_) + z(x * s.sw);
        for (int kx = 0; kx < s.kw; ++kx) sum += row[kx];
      }
      *ones++ = sum;
    }
  }
}

void BinaryConv::run(const std::uint64_t* codes, std::int16_t* y, std::int64_t* sums, std::int64_t* squares,
                     Team& team) const {
  const ConvShape& s = shape_;
  const std::size_t in = z(s.h) * z(s.w) * z(words_of(s.in)), out = z(s.oh()) * z(s.ow()) * z(s.out);
  const int images = by_tiles_ ? images_by_tiles(team.threads()) : 1, tasks = (s.n + images - 1) / images;
  std::vector<std::int64_t> partial(2 * z(s.out) * z(tasks));
  team.run(tasks, [&](int task) {
    const int first = task * images;
    std::int64_t* own = partial.data() + 2 * z(s.out) * z(task);
    if (by_tiles_) {
      run_tiles(codes + z(first) * in, std::min(images, s.n - first), y + z(first) * out, own, own + s.out);
    } else {
      run_rows(codes + z(first) * in, y + z(first) * out, own, own + s.out);
    }
  });
  std::fill_n(sums, s.out, 0);
  std::fill_n(squares, s.out, 0);
  for (const std::int64_t* own = partial.data(); own != partial.data() + partial.size(); own += 2 * s.out) {
    for (int c = 0; c < s.out; ++c) {
      sums[c] += own[c];
      squares[c] += own[s.out + c];
    }
  }
}

void BinaryConv::run_rows(const std::uint64_t* codes, std::int16_t* y, std::int64_t* sums,
                          std::int64_t* squares) const {
  const ConvShape& s = shape_;
  const std::size_t plane_size = z(plane_rows_) * z(plane_columns_), outputs = z(s.oh()) * z(s.ow());
  std::vector<std::uint64_t> planes;
  std::vector<std::size_t> plane_at;
  for (const Group& group : groups_) {
    plane_at.push_back(planes.size());
    planes.resize(planes.size() + plane_size * z(group.words));
  }
  std::vector<std::int32_t> ones(zero_one_ ? outputs * groups_.size() : 0);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    fill_plane(groups_[g], codes, planes.data() + plane_at[g]);
    if (zero_one_) count_ones(groups_[g], planes.data() + plane_at[g], ones.data() + g * outputs);
  }
  std::vector<float> values(z(s.ow()) * z(s.out));
  const int most = limit(s);
  for (int line = 0; line < s.oh(); ++line) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const Group& group = groups_[g];
      BConvRow row{};
      row.words = group.words;
      row.row_stride = z(plane_columns_) * z(group.words);
      row.in = planes.data() + plane_at[g] + z(line * s.sh) * row.row_stride;
      row.kh = s.kh;
      row.kw = s.kw;
      row.stride = s.sw;
      row.width = s.ow();
      row.zero_one = zero_one_;
      row.border = column_class_.data();
      row.ones = ones.data() + (zero_one_ ? g * outputs + z(line) * z(s.ow()) : 0);
      row.end = as_they_are();
      for (int first = 0, panel = group.first_panel; first < group.out_size; first += PANEL, ++panel) {
        row.channels = std::min(PANEL, group.out_size - first);
        row.weights =
            weights_.data() + group.weights_at + z(panel - group.first_panel) * z(s.kh * s.kw * group.words) * PANEL;
        if (!zero_one_) {
          const std::size_t at = z(panel) * row_kinds_.size() + row_class_[z(line)];
          row.base = bases_.data() + at * column_kinds_.size() * PANEL;
        }
        row.end.out = values.data() + group.out_first + first;
        kernels_.bconv_row(row);
      }
    }
    rows_.keep(values.data(), z(s.ow()), s.out, most, y, sums, squares);
    y += z(s.ow()) * z(s.out);
  }
}

}  // namespace ftbnn::training
