#include "training/block.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "training/binary_conv.h"
#include "training/pieces.h"
#include "training/wide.h"

namespace ftbnn::training {

namespace {

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

// What `saved` holds for each channel: of z = scale * y + shift, and of the normalised y = rate * (y - mean).
struct Saved {
  Saved(float* at, int channels) : scale(at), shift(at + channels), mean(at + 2 * channels), rate(at + 3 * channels) {}
  float *scale, *shift, *mean, *rate;
};

// z and the slopes of any activation, for rows of several positions.
struct Form {
  Form(const Block& b, const Saved& s, const Wide& wide)
      : scale(wide.repeat(s.scale)),
        shift(wide.repeat(s.shift)),
        left(slopes(b.left, wide)),
        right(slopes(b.right, wide)),
        linear(b.left == nullptr && b.right == nullptr) {}
  BlockAffine get() const { return {scale.data(), shift.data(), left.data(), right.data(), linear}; }

  std::vector<float> scale, shift, left, right;
  bool linear;

 private:
  static std::vector<float> slopes(const float* given, const Wide& wide) {
    return given != nullptr ? wide.repeat(given) : std::vector<float>(z(wide.width()), 1.0F);
  }
};

void find_affine(const Block& b, double positions, const std::int64_t* sums, const std::int64_t* squares,
                 float* running_mean, float* running_var, const Saved& saved) {
  for (int c = 0; c < b.shape.out; ++c) {
    const double factor = b.factor != nullptr ? b.factor[c] : 1.0;
    double mean, variance;  // of factor * y
    if (b.batch_stats) {
      const double plain = static_cast<double>(sums[c]) / positions;
      mean = factor * plain;
      variance = factor * factor * std::max(0.0, static_cast<double>(squares[c]) / positions - plain * plain);
      if (running_mean != nullptr) {
        const double unbiased = variance * positions / (positions - 1);
        running_mean[c] = static_cast<float>((1 - b.momentum) * running_mean[c] + b.momentum * mean);
        running_var[c] = static_cast<float>((1 - b.momentum) * running_var[c] + b.momentum * unbiased);
      }
    } else {
      mean = running_mean[c];
      variance = running_var[c];
    }
    const double rate = factor / std::sqrt(variance + b.eps), gamma = b.gamma != nullptr ? b.gamma[c] : 1.0;
    const double center = factor != 0 ? mean / factor : 0.0;
    saved.rate[c] = static_cast<float>(rate);
    saved.mean[c] = static_cast<float>(center);
    saved.scale[c] = static_cast<float>(gamma * rate);
    const double shift = factor != 0 ? -gamma * rate * center : -gamma * mean / std::sqrt(variance + b.eps);
    saved.shift[c] = static_cast<float>(shift + (b.beta != nullptr ? b.beta[c] : 0.0));
  }
}

}  // namespace

ForwardTimes forward(const Block& b, const float* x, const float* shortcut, float* running_mean, float* running_var,
                     std::uint64_t* codes, std::uint64_t* inside, std::int16_t* y, float* saved, float* out,
                     Team& team) {
  Stopwatch watch;
  ForwardTimes times{};
  const ConvShape& s = b.shape;
  const BlockRows& rows = block_rows_for(b.isa);
  const std::size_t channels = z(s.out), words = z((s.in + 63) / 64);
  const std::size_t inputs = z(s.h) * z(s.w), outputs = z(s.oh()) * z(s.ow());
  const BinaryConv conv(s, b.zero_one, b.weight, b.tail, b.isa, team);
  times.pack_weights = watch.lap();

  const Pieces bits(z(s.n) * inputs);
  team.run(bits.count(), [&](int piece) {
    const std::size_t first = bits.first(piece);
    rows.pack(x + first * z(s.in), bits.length(piece), s.in, b.bound, codes + first * words,
              from(inside, first * words));
  });
  times.pack = watch.lap();

  std::vector<std::int64_t> sums(channels), squares(channels);
  conv.run(codes, y, sums.data(), squares.data(), team);
  const Saved per_channel(saved, s.out);
  const double positions = static_cast<double>(s.n) * static_cast<double>(outputs);
  find_affine(b, positions, sums.data(), squares.data(), running_mean, running_var, per_channel);
  times.conv = watch.lap();

  const Wide wide(s.out);
  const Form form(b, per_channel, wide);
  const Pieces pieces(z(s.n) * outputs);
  if (b.identity) shortcut = x;
  team.run(pieces.count(), [&](int piece) {
    wide.run(pieces.length(piece), [&](std::size_t first, std::size_t count, int width) {
      const std::size_t at = (pieces.first(piece) + first) * channels;
      rows.activate(y + at, from(shortcut, at), count, width, form.get(), out + at);
    });
  });
  times.activate = watch.lap();
  return times;
}

BackwardTimes backward(const Block& b, const float* grad, const float* shortcut, const std::uint64_t* codes,
                       const std::uint64_t* inside, const std::int16_t* y, const float* saved,
                       AlignedArray<float>& scratch, const Gradients& to, Team& team) {
  Stopwatch watch;
  BackwardTimes times{};
  const ConvShape& s = b.shape;
  const BlockRows& rows = block_rows_for(b.isa);
  const std::size_t channels = z(s.out);
  const Pieces pieces(z(s.n) * z(s.oh()) * z(s.ow()));
  const Saved per_channel(const_cast<float*>(saved), s.out);
  const Wide wide(s.out);
  const Form form(b, per_channel, wide);

  const std::vector<float> mean_row = wide.repeat(per_channel.mean);
  std::vector<float> partial(4 * channels * z(pieces.count()));
  team.run(pieces.count(), [&](int piece) {
    wide.run(pieces.length(piece), [&](std::size_t first, std::size_t count, int width) {
      const std::size_t at = (pieces.first(piece) + first) * channels;
      std::vector<float> row(4 * z(width));
      rows.reduce(grad + at, y + at, from(shortcut, at), count, width, form.get(), mean_row.data(), row.data());
      for (std::size_t k = 0; k < 4; ++k) {
        wide.add(row.data() + k * z(width), width, partial.data() + (4 * z(piece) + k) * channels);
      }
    });
  });
  std::vector<double> sums(4 * channels);
  for (std::size_t k = 0; k < partial.size(); ++k) sums[k % (4 * channels)] += static_cast<double>(partial[k]);
  std::vector<float> linear(channels), constant(channels);
  const double positions = static_cast<double>(pieces.total);
  for (std::size_t c = 0; c < channels; ++c) {
    const double beta = sums[c], centered = sums[channels + c];
    const double scale = per_channel.scale[c], rate = per_channel.rate[c], mean = per_channel.mean[c];
    const double slope = b.batch_stats ? -scale * rate * rate * centered / positions : 0.0;
    linear[c] = static_cast<float>(slope);
    constant[c] = static_cast<float>((b.batch_stats ? -scale * beta / positions : 0.0) - slope * mean);
    if (to.beta != nullptr) to.beta[c] = static_cast<float>(beta);
    if (to.gamma != nullptr) to.gamma[c] = static_cast<float>(rate * centered);
    if (to.left != nullptr) to.left[c] = static_cast<float>(sums[2 * channels + c]);
    if (to.right != nullptr) to.right[c] = static_cast<float>(sums[3 * channels + c]);
  }
  times.reduce = watch.lap();

  const std::vector<float> linear_row = wide.repeat(linear.data()), constant_row = wide.repeat(constant.data());
  const bool through_x = b.identity && to.x != nullptr;
  if (to.x != nullptr && !b.identity) std::memset(to.x, 0, z(s.n) * z(s.h) * z(s.w) * z(s.in) * sizeof(float));
  float* shortcut_grad = through_x ? to.x : to.shortcut;
  const std::size_t outputs = z(s.oh()) * z(s.ow());
  const GradSource source = [&](int first, int count) {
    const double before = watch.lap();
    const std::size_t start = z(first) * outputs * channels;
    if (scratch.size() < z(count) * outputs * channels) {
      scratch = {};  // not two at a time
      scratch = AlignedArray<float>(z(count) * outputs * channels);
    }
    const Pieces slice(z(count) * outputs);
    team.run(slice.count(), [&](int piece) {
      wide.run(slice.length(piece), [&](std::size_t row, std::size_t rows_here, int width) {
        const std::size_t own = (slice.first(piece) + row) * channels, at = start + own;
        rows.differentiate(grad + at, y + at, from(shortcut, at), rows_here, width, form.get(), linear_row.data(),
                           constant_row.data(), scratch.data() + own, from(shortcut_grad, at));
      });
    });
    times.conv += before;
    times.differentiate += watch.lap();
    return static_cast<const float*>(scratch.data());
  };
  std::optional<ToInput> to_input;
  std::optional<ToWeight> to_weight;
  if (to.x != nullptr) to_input = {inside, to.x};
  if (to.weight != nullptr) to_weight = {codes, b.zero_one, b.weight_bound, to.weight, to.tail};
  if (to_input || to_weight) {
    const GradKernels& kernels = b.byte_gradients ? byte_grad_kernels_for(b.isa) : grad_kernels_for(b.isa);
    gradients(s, source, b.weight, b.tail, to_input, to_weight, kernels, team);
  } else if (shortcut_grad != nullptr) {
    for (int n = 0; n < s.n; ++n) source(n, 1);
  }
  times.conv += watch.lap();
  return times;
}

}  // namespace ftbnn::training
