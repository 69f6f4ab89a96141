#include "training/binary_conv.h"

#include <algorithm>

#include "base/scratch.h"
#include "base/table.h"

namespace ftbnn::training {

namespace {

constexpr std::size_t POSITIONS = 256;  // to a task, if images are small: what is done for a panel serves them all
constexpr int TASKS_PER_THREAD = 4;
constexpr int MOST_VECTOR_TAPS = 64;  // that vectors pack

std::size_t z(int value) { return static_cast<std::size_t>(value); }

// Of dense codes: every group's channels side by side.
CodeLayout layout_of(const BatchShape& s) {
  CodeLayout layout{words_of(s.in), s.in, {}, false};
  for (int g = 0; g < s.groups; ++g) layout.groups.push_back({{s.ins().first(g), s.ins().size(g)}});
  return layout;
}

// Signs of the proxies, as a kernel takes weights.
std::vector<std::uint64_t> pack_weights(const BatchShape& s, const float* weight, const float* tail,
                                        const BlockKernels& rows, Team& team) {
  std::vector<std::uint64_t> words(weight_words(s));
  const Groups ins = s.ins(), outs = s.outs();
  const std::size_t taps = z(s.taps()), size = words_of(ins.size(0)) * taps, last = words_of(ins.largest()) * taps;
  constexpr int CHANNELS = 8;  // of a task
  team.run((s.out + CHANNELS - 1) / CHANNELS, [&](int task) {
    for (int o = task * CHANNELS; o < std::min(s.out, (task + 1) * CHANNELS); ++o) {
      const int g = std::min(o / outs.size(0), s.groups - 1), inside = o - outs.first(g);
      const bool in_tail = tail != nullptr && g == s.groups - 1;
      const float* proxies = (in_tail ? tail : weight) + z(in_tail ? inside : o) * z(ins.size(g)) * taps;
      const bool is_last = g == s.groups - 1;
      std::uint64_t* to = words.data() + z(outs.first(g)) * size + z(inside) * (is_last ? last : size);
      rows.pack_proxies(proxies, ins.size(g), s.taps(), to);
    }
  });
  return words;
}

const BlockKernels& packing_rows(const BatchShape& s, Features usable) {
  return block_table().best(s.taps() <= MOST_VECTOR_TAPS ? usable : PORTABLE).kernels;
}

}  // namespace

BinaryConv::BinaryConv(const BatchShape& shape, bool zero_one, const float* weight, const float* tail, Features usable,
                       Team& team)
    : s_(shape), rows_(block_table().best(usable).kernels) {
  const BConvShape bconv{shape, zero_one};
  const std::vector<std::uint64_t> words = pack_weights(shape, weight, tail, packing_rows(shape, usable), team);
  const auto suits = [&](const BConvKernels& kernels) { return kernels.suits(bconv); };
  const BConvKernels& kernels = bconv_table().best(usable, suits).kernels;
  conv_ = kernels.make(bconv, layout_of(shape), words.data());
  panels_ = panels_of(kernels.panels(bconv));
  ones_.assign(z(conv_->panels_at_once()) * PANEL, 1);
  zeros_.assign(ones_.size(), 0);
}

void BinaryConv::run(const std::uint64_t* codes, std::int16_t* y, std::int64_t* sums, std::int64_t* squares,
                     Team& team) const {
  const std::size_t in = z(s_.h) * z(s_.w) * words_of(s_.in), out = s_.positions() * z(s_.out);
  const int most = std::max(1, s_.n / (TASKS_PER_THREAD * team.threads()));
  const int images = std::clamp(static_cast<int>(POSITIONS / s_.positions()), 1, most);
  const int tasks = (s_.n + images - 1) / images;
  std::vector<std::int64_t> partial(2 * z(s_.out) * z(tasks));
  team.run(tasks, [&](int task) {
    const int first = task * images;
    std::int64_t* own = partial.data() + 2 * z(s_.out) * z(task);
    run_images(codes + z(first) * in, std::min(images, s_.n - first), y + z(first) * out, own, own + s_.out);
  });
  std::fill_n(sums, s_.out, 0);
  std::fill_n(squares, s_.out, 0);
  for (const std::int64_t* own = partial.data(); own != partial.data() + partial.size(); own += 2 * s_.out) {
    for (int c = 0; c < s_.out; ++c) {
      sums[c] += own[c];
      squares[c] += own[s_.out + c];
    }
  }
}

void BinaryConv::run_images(const std::uint64_t* codes, int images, std::int16_t* y, std::int64_t* sums,
                            std::int64_t* squares) const {
  static thread_local Scratch scratch;
  scratch.restart();
  const std::size_t image_words = z(s_.h) * z(s_.w) * words_of(s_.in), line = z(s_.ow) * z(s_.out);
  const std::size_t arranged_image = round_up(conv_->arranged_bytes(), CACHE_LINE);
  const int band = std::clamp(static_cast<int>(conv_->best_outputs() / line / z(images)), 1, s_.oh);
  auto* arranged = scratch.take<char>(z(images) * arranged_image);
  void* own = scratch.take_bytes(conv_->scratch_bytes());
  auto* values = scratch.take<float>(z(images) * z(band) * line);
  for (int image = 0; image < images; ++image) {
    const Codes from{codes + z(image) * image_words, z(s_.w) * words_of(s_.in)};
    conv_->arrange(0, s_.oh, from, arranged + z(image) * arranged_image, own);
  }
  BConvCall call{};
  call.arranged = arranged;
  call.arranged_image = arranged_image;
  call.images = images;
  call.out_image = z(band) * line;
  call.scratch = own;
  call.end.scale = ones_.data();
  call.end.shift = zeros_.data();
  call.end.out_stride = z(s_.out);
  call.end.out_row = line;
  for (call.first = 0; call.first < s_.oh; call.first += band) {
    call.last = std::min(s_.oh, call.first + band);
    const int panels = static_cast<int>(panels_.size()), together = conv_->panels_at_once();
    for (call.panel = 0; call.panel < panels; call.panel += together) {
      call.panels = std::min(together, panels - call.panel);
      call.end.out = values + panels_[z(call.panel)].first;
      conv_->run(call);
    }
    for (int image = 0; image < images; ++image) {
      rows_.keep(values + z(image) * call.out_image, z(call.last - call.first) * z(s_.ow), s_.out, limit(s_),
                 y + (z(image) * z(s_.oh) + z(call.first)) * line, sums, squares);
    }
  }
}

}  // namespace ftbnn::training
