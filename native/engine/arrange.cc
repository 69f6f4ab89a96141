// Weights, scales and border constants of a convolution, in the kernels' order.
#include <algorithm>
#include <cstring>

#include "engine/limits.h"
#include "engine/plan.h"
#include "engine/tap_words.h"
#include "kernels/border.h"

namespace ftbnn {

namespace {

std::size_t z(int value) { return static_cast<std::size_t>(value); }

// [out][in][tap] to [panel][tap][in][PANEL], a cache line of every output channel at a time.
void arrange_weights(const Operator& op, OperatorPlan& plan) {
  constexpr int LINE = CACHE_LINE / sizeof(float);
  const int taps = op.window.kh * op.window.kw;
  const float* from = op.weights;
  for (const GroupPlan& group : plan.groups) {
    const int window = taps * group.in_size;
    for (int first = 0; first < group.out_size; first += PANEL) {
      const int channels = std::min(PANEL, group.out_size - first);
      float* panel = plan.weights.data() + group.weights_at + z(first) * z(window);
      for (int line = 0; line < window; line += LINE) {
        for (int o = 0; o < channels; ++o) {
          int c = line / taps, t = line % taps;
          for (int k = line; k < std::min(line + LINE, window); ++k) {
            panel[(z(t) * z(group.in_size) + z(c)) * PANEL + z(o)] = from[z(o) * z(window) + z(k)];
            if (++t == taps) t = 0, ++c;
          }
        }
      }
      from += z(channels) * z(window);
    }
  }
}

// A stream of bits, read up to 64 at a time.
class BitStream {
 public:
  BitStream(const std::uint8_t* bytes, std::size_t size) : bytes_(bytes), size_(size) {}

  std::uint64_t take(int count) {
    const std::size_t byte = at_ / 8;
    const int shift = static_cast<int>(at_ % 8);
    std::uint64_t word = 0;
    std::memcpy(&word, bytes_ + byte, std::min<std::size_t>(8, size_ - byte));
    word >>= shift;
    if (shift + count > 64) word |= std::uint64_t{bytes_[byte + 8]} << (64 - shift);
    at_ += z(count);
    return count == 64 ? word : word & ((std::uint64_t{1} << count) - 1);
  }

 private:
  const std::uint8_t* bytes_;
  std::size_t size_, at_ = 0;
};

void arrange_bits(const Operator& op, OperatorPlan& plan) {
  const int taps = op.window.kh * op.window.kw;
  BitStream stream(op.bits, op.bits_bytes);
  for (const GroupPlan& group : plan.groups) {
    const int words = words_of(group.in_size);
    for (int o = 0; o < group.out_size; ++o) {
      std::uint64_t* to = plan.bits.data() + group.weights_at + z(o / PANEL) * z(taps * words) * PANEL + z(o % PANEL);
      for (int t = 0; t < taps; ++t) {
        for (int c = 0; c < group.in_size; c += 64, to += PANEL) *to = stream.take(std::min(64, group.in_size - c));
      }
    }
  }
}

void border_base(const Operator& op, const Shape& in, const Shape& out, OperatorPlan& plan, Room& room) {
  const Window& w = op.window;
  std::vector<Inside> rows, columns;
  plan.row_class = border_classes(out.h, w.sh, w.kh, w.ph, in.h, rows);
  plan.column_class = border_classes(out.w, w.sw, w.kw, w.pw, in.w, columns);
  plan.row_classes = static_cast<int>(rows.size());
  plan.column_classes = static_cast<int>(columns.size());
  const std::size_t classes = rows.size() * columns.size();
  if (!room.take(z(plan.panels) * classes * PANEL * sizeof(std::int32_t))) {
    throw FormatError(op.path + ": the border would not fit into memory");
  }
  plan.base = AlignedArray<std::int32_t>(z(plan.panels) * classes * PANEL);
  for (const GroupPlan& group : plan.groups) {
    const std::size_t size = z(w.kh * w.kw * words_of(group.in_size)) * PANEL;
    for (int panel = 0; panel < group.panels; ++panel) {
      border_bases(plan.bits.data() + group.weights_at + z(panel) * size, group.in_size, w.kh, w.kw, rows, columns,
                   plan.base.data() + z(group.first_panel + panel) * classes * PANEL);
    }
  }
}

// One number for each output channel, those that are not there replaced.
AlignedArray<float> arrange_channels(const OperatorPlan& plan, const float* from, float absent) {
  AlignedArray<float> to(z(plan.panels) * PANEL);
  for (const GroupPlan& group : plan.groups) {
    for (int c = 0; c < group.out_size; ++c) {
      to[z(group.first_panel) * PANEL + z(c)] = from != nullptr ? from[group.out_first + c] : absent;
    }
  }
  return to;
}

}  // namespace

void arrange(const Model& model, const Operator& op, OperatorPlan& plan, Room& room) {
  const Shape &in = model.values[z(op.inputs[0])], &out = model.values[z(op.output)];
  const Groups ins{in.c, op.groups}, outs{out.c, op.groups};
  const bool is_binary = op.kind == Kind::bconv;
  const int taps = op.window.kh * op.window.kw;
  std::size_t size = 0;
  for (int g = 0; g < op.groups; ++g) {
    GroupPlan group{ins.first(g), ins.size(g), outs.first(g), outs.size(g), panels_of(outs.size(g)), plan.panels, size};
    plan.panels += group.panels;
    const int depth = is_binary ? words_of(group.in_size) : op.weights != nullptr ? group.in_size : 0;
    size += z(group.panels) * z(taps) * z(depth) * PANEL;
    plan.macs += static_cast<std::uint64_t>(group.in_size) * static_cast<std::uint64_t>(group.out_size);
    plan.groups.push_back(group);
    if (size > MAX_ARENA_FLOATS) throw FormatError(op.path + ": the weights would not fit into memory");
  }
  plan.macs *= static_cast<std::uint64_t>(taps) * static_cast<std::uint64_t>(out.h) * static_cast<std::uint64_t>(out.w);
  if (is_binary) plan.taps_a_word = taps_a_word(ins.size(op.groups - 1), taps);  // the last group is the largest
  const std::size_t word = is_binary ? sizeof(std::uint64_t) : sizeof(float);
  if (!room.take((plan.taps_a_word > 1 ? 2 : 1) * word * size)) {  // merged at most as large as what it is made of
    throw FormatError(op.path + ": the weights would not fit into memory");
  }
  plan.scale = arrange_channels(plan, op.tail.scale, 1.0F);
  plan.shift = arrange_channels(plan, op.tail.shift, 0.0F);
  plan.left = arrange_channels(plan, op.tail.left, 1.0F);
  plan.right = arrange_channels(plan, op.tail.right, 1.0F);
  if (is_binary) {
    plan.bits = AlignedArray<std::uint64_t>(size);
    arrange_bits(op, plan);
    if (plan.taps_a_word > 1) plan.merged = merge_weights(plan.bits, plan.panels, taps, plan.taps_a_word);
    if (!op.zero_one) border_base(op, in, out, plan, room);
  } else if (op.weights != nullptr) {
    plan.weights = AlignedArray<float>(size);
    arrange_weights(op, plan);
  } else {
    plan.macs = 0;
  }
}

}  // namespace ftbnn
