#include "training/block.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/scratch.h"
#include "base/table.h"
#include "training/bands.h"
#include "training/binary_conv.h"
#include "training/conv_grad.h"
#include "training/pieces.h"
#include "training/wide.h"

namespace ftbnn::training {

namespace {

constexpr std::size_t FLOATS_AT_HAND = 4096,
                      LEAST_AT_HAND = 16;  // a first-level cache keeps so much: floats, positions
constexpr std::size_t LEAST_SUMMED = 128;  // positions of a piece: with fewer, the sums of pieces would cost as much
constexpr std::size_t SUMS = 5;            // rows of sums that backward makes

std::size_t z(int value) { return static_cast<std::size_t>(value); }

class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// What `saved` holds for each channel: of z = scale * y + shift, and of the normalised y = rate * (y - mean), where
// rate is factor * root.
struct Saved {
  Saved(float* at, int channels)
      : scale(at), shift(at + channels), mean(at + 2 * channels), rate(at + 3 * channels), root(at + 4 * channels) {}
  float *scale, *shift, *mean, *rate, *root;
};

// z and the slopes of any activation, for rows of several positions.
struct Affine {
  Affine(const Block& b, const BlockTensors& t, const Saved& s, const Wide& wide)
      : scale(wide.repeat(s.scale)),
        shift(wide.repeat(s.shift)),
        left(slopes(t.left, wide)),
        right(slopes(t.right, wide)),
        linear(t.left == nullptr && t.right == nullptr && std::isinf(b.limit)),
        limit(std::isinf(b.limit) ? std::numeric_limits<float>::quiet_NaN() : b.limit) {
    if (t.after != nullptr) after = wide.repeat(t.after);
  }
  BlockAffine get() const {
    return {scale.data(), shift.data(), left.data(), right.data(), after.empty() ? nullptr : after.data(),
            linear,       limit};
  }

  std::vector<float> scale, shift, left, right, after;
  bool linear;
  float limit;

 private:
  static std::vector<float> slopes(const float* given, const Wide& wide) {
    return given != nullptr ? wide.repeat(given) : std::vector<float>(z(wide.width()), 1.0F);
  }
};

void find_affine(const Block& b, const BlockTensors& t, double positions, const std::int64_t* sums,
                 const std::int64_t* squares, const Saved& saved) {
  for (int c = 0; c < b.shape.out; ++c) {
    const double factor = t.factor != nullptr ? t.factor[c] : 1.0;
    double mean = 0, variance = 1, center = 0;  // of factor * y; center: of y
    if (b.batch_stats) {
      const double plain = static_cast<double>(sums[c]) / positions;
      center = plain;
      mean = factor * plain;
      variance = factor * factor * std::max(0.0, static_cast<double>(squares[c]) / positions - plain * plain);
      if (t.new_mean != nullptr) {
        const double unbiased = variance * positions / (positions - 1);
        t.new_mean[c] = static_cast<float>((1 - b.momentum) * t.running_mean[c] + b.momentum * mean);
        t.new_var[c] = static_cast<float>((1 - b.momentum) * t.running_var[c] + b.momentum * unbiased);
      }
    } else if (b.normalise) {
      mean = t.running_mean[c];
      variance = t.running_var[c];
      center = factor != 0 ? mean / factor : 0.0;
    }
    const double root = 1 / std::sqrt(variance + b.eps), rate = factor * root;
    const double gamma = t.gamma != nullptr ? t.gamma[c] : 1.0;
    saved.root[c] = static_cast<float>(root);
    saved.rate[c] = static_cast<float>(rate);
    saved.mean[c] = static_cast<float>(center);
    saved.scale[c] = static_cast<float>(gamma * rate);
    saved.shift[c] = static_cast<float>(-gamma * root * mean + (t.beta != nullptr ? t.beta[c] : 0.0));
  }
}

// The rule of the gradient of x, where a bit does not suffice: x_grad comes as the gradient of codes.
void pass_rule(const Block& b, const BlockTensors& t, const BlockKernels& rows, Team& team) {
  const std::size_t channels = z(b.shape.in);
  const Pieces pieces(z(b.shape.n) * z(b.shape.h) * z(b.shape.w));
  std::vector<float> partial(channels * z(pieces.count()));
  const float* through = b.identity ? t.shortcut_grad : nullptr;
  team.run(pieces.count(), [&](int piece) {
    const std::size_t at = pieces.first(piece) * channels;
    rows.pass(t.x + at, t.input_shift, from(through, at), pieces.length(piece), b.shape.in, b.rule, t.x_grad + at,
              partial.data() + z(piece) * channels);
  });
  if (t.input_shift_grad == nullptr) return;
  std::vector<double> sums(channels);
  add_rows(partial, sums);
  for (std::size_t c = 0; c < channels; ++c) t.input_shift_grad[c] = static_cast<float>(sums[c]);
}

}  // namespace

ForwardTimes forward(const Block& b, const BlockTensors& t, Team& team) {
  Stopwatch watch;
  ForwardTimes times{};
  const BatchShape& s = b.shape;
  const BlockKernels& rows = block_table().best(b.usable).kernels;
  const std::size_t channels = z(s.out), words = words_of(s.in);
  const BinaryConv conv(s, b.zero_one, t.weight, t.tail, b.usable, team);
  times.pack_weights = watch.lap();

  const Pieces bits(z(s.n) * z(s.h) * z(s.w));
  team.run(t.has_codes ? 0 : bits.count(), [&](int piece) {
    const std::size_t first = bits.first(piece);
    rows.pack(t.x + first * z(s.in), t.input_shift, bits.length(piece), s.in, b.rule.a, t.codes + first * words,
              from(t.inside, first * words));
  });
  times.pack = watch.lap();

  std::vector<std::int64_t> sums(channels), squares(channels);
  conv.run(t.codes, t.y, sums.data(), squares.data(), team);
  const Saved per_channel(t.saved, s.out);
  const double positions = static_cast<double>(s.n) * static_cast<double>(s.positions());
  find_affine(b, t, positions, sums.data(), squares.data(), per_channel);
  times.conv = watch.lap();

  const Wide wide(s.out);
  const Affine affine(b, t, per_channel, wide);
  const Pieces pieces(z(s.n) * s.positions());
  const float* shortcut = b.identity ? t.x : t.shortcut;
  const std::size_t out_words = words_of(s.out), some = std::max(LEAST_AT_HAND, FLOATS_AT_HAND / channels);
  team.run(pieces.count(), [&](int piece) {
    const std::size_t end = pieces.first(piece) + pieces.length(piece);
    for (std::size_t start = pieces.first(piece); start < end; start += some) {
      const std::size_t positions_here = std::min(some, end - start);
      wide.run(positions_here, [&](std::size_t first, std::size_t count, int width) {
        const std::size_t at = (start + first) * channels;
        rows.activate(t.y + at, from(shortcut, at), count, width, affine.get(), t.out + at);
      });
      if (t.out_codes == nullptr) continue;
      rows.pack(t.out + start * channels, nullptr, positions_here, s.out, b.rule.a, t.out_codes + start * out_words,
                t.out_inside + start * out_words);
    }
  });
  times.activate = watch.lap();
  return times;
}

BackwardTimes backward(const Block& b, const BlockTensors& t, Team& team) {
  Stopwatch watch;
  BackwardTimes times{};
  const BatchShape& s = b.shape;
  const BlockKernels& rows = block_table().best(b.usable).kernels;
  const std::size_t channels = z(s.out), outputs = s.positions();
  const Pieces pieces(z(s.n) * outputs, LEAST_SUMMED);
  const Saved per_channel(t.saved, s.out);
  const Wide wide(s.out);
  const Affine affine(b, t, per_channel, wide);
  const float* shortcut = b.identity ? t.x : t.shortcut;

  const std::vector<float> mean_row = wide.repeat(per_channel.mean);
  std::vector<float> partial(SUMS * channels * z(pieces.count()));
  team.run(pieces.count(), [&](int piece) {
    wide.run(pieces.length(piece), [&](std::size_t first, std::size_t count, int width) {
      const std::size_t at = (pieces.first(piece) + first) * channels;
      std::vector<float> row(SUMS * z(width));
      rows.reduce(t.grad + at, t.y + at, from(shortcut, at), count, width, affine.get(), mean_row.data(), row.data());
      for (std::size_t k = 0; k < SUMS; ++k) {
        wide.add(row.data() + k * z(width), width, partial.data() + (SUMS * z(piece) + k) * channels);
      }
    });
  });
  std::vector<double> sums(SUMS * channels);
  add_rows(partial, sums);
  std::vector<float> linear(channels), constant(channels);
  const double positions = static_cast<double>(pieces.total);
  for (std::size_t c = 0; c < channels; ++c) {
    const double beta = sums[c], centered = sums[channels + c];
    const double scale = per_channel.scale[c], rate = per_channel.rate[c], mean = per_channel.mean[c];
    const double slope = b.batch_stats ? -scale * rate * rate * centered / positions : 0.0;
    linear[c] = static_cast<float>(slope);
    constant[c] = static_cast<float>((b.batch_stats ? -scale * beta / positions : 0.0) - slope * mean);
    if (t.beta_grad != nullptr) t.beta_grad[c] = static_cast<float>(beta);
    if (t.gamma_grad != nullptr) t.gamma_grad[c] = static_cast<float>(rate * centered);
    if (t.factor_grad != nullptr) {
      // The batch's deviation takes a factor out again, but for eps: d/df of f (y - mean) / sqrt(f^2 var + eps).
      const double root = per_channel.root[c], gamma = t.gamma != nullptr ? t.gamma[c] : 1.0;
      const double inner = b.batch_stats ? b.eps * root * root * centered : centered + mean * beta;
      t.factor_grad[c] = static_cast<float>(gamma * root * inner);
    }
    if (t.left_grad != nullptr) t.left_grad[c] = static_cast<float>(sums[2 * channels + c]);
    if (t.right_grad != nullptr) t.right_grad[c] = static_cast<float>(sums[3 * channels + c]);
    if (t.after_grad != nullptr) t.after_grad[c] = static_cast<float>(sums[4 * channels + c]);
  }
  times.reduce = watch.lap();

  // The gradient of y is made slice by slice of images, while the convolution's gradients consume it.
  static thread_local Scratch scratch;
  const std::vector<float> linear_row = wide.repeat(linear.data()), constant_row = wide.repeat(constant.data());
  const bool by_bits = keeps_bits(b, t), through_x = b.identity && t.x_grad != nullptr && by_bits;
  const std::size_t inputs = z(s.n) * z(s.h) * z(s.w);
  float* shortcut_grad = through_x ? t.x_grad : t.shortcut_grad;
  std::vector<std::uint32_t> largest;
  const GradSource source = [&](int first, int count) {
    const double before = watch.lap();
    const std::size_t start = z(first) * outputs * channels;
    scratch.restart();
    auto* made = scratch.take<float>(z(count) * outputs * channels);
    const auto differentiate = [&](std::size_t position, std::size_t size, std::uint32_t* found) {
      std::vector<std::uint32_t> row(found != nullptr ? z(wide.width()) : 0);
      wide.run(size, [&](std::size_t next, std::size_t rows_here, int width) {
        const std::size_t own = (position + next) * channels, at = start + own;
        rows.differentiate(t.grad + at, t.y + at, from(shortcut, at), rows_here, width, affine.get(), linear_row.data(),
                           constant_row.data(), made + own, from(shortcut_grad, at),
                           found != nullptr ? row.data() : nullptr);
      });
      for (std::size_t k = 0; k < row.size(); k += channels) {
        for (std::size_t c = 0; c < channels; ++c) found[c] = std::max(found[c], row[k + c]);
      }
    };
    Bands(count, outputs).run(channels, b.byte_gradients ? &largest : nullptr, team, differentiate);
    times.conv += before;
    times.differentiate += watch.lap();
    return MadeGradient{made, largest.data()};
  };
  std::vector<std::uint64_t> all;  // every input, where x itself is asked afterwards
  if (t.x_grad != nullptr && !by_bits) all.assign(inputs * words_of(s.in), ~std::uint64_t{0});
  std::optional<ToInput> to_input;
  std::optional<ToWeight> to_weight;
  if (t.x_grad != nullptr) to_input = {by_bits ? t.inside : all.data(), t.x_grad, through_x};
  if (t.weight_grad != nullptr) to_weight = {t.codes, b.zero_one, b.weight_bound, t.weight_grad, t.tail_grad};
  if (to_input || to_weight) {
    const Table<GradKernels>& table = b.byte_gradients ? byte_grad_table() : grad_table();
    gradients(s, source, t.weight, t.tail, to_input, to_weight, table.best(b.usable).kernels, team);
  } else if (shortcut_grad != nullptr) {
    for (int n = 0; n < s.n; ++n) source(n, 1);
  }
  if (t.x_grad != nullptr && !by_bits) pass_rule(b, t, rows, team);
  times.conv += watch.lap();
  return times;
}

}  // namespace ftbnn::training
