#include "training/norm.h"

#include <cmath>
#include <vector>

#include "base/table.h"
#include "training/pieces.h"

namespace ftbnn::training {

namespace {

std::size_t z(int value) { return static_cast<std::size_t>(value); }

constexpr std::size_t FLOAT_RUN = 256;  // positions that are added up in single precision

// What `saved` holds for each channel, and the slopes.
struct Form {
  Form(const Norm& norm, const NormTensors& t) : ones(z(norm.channels), 1.0F) {
    mean = t.saved;
    scale = mean + norm.channels;
    shift = scale + norm.channels;
    rate = shift + norm.channels;
    left = t.left != nullptr ? t.left : ones.data();
    right = t.right != nullptr ? t.right : ones.data();
    linear = t.left == nullptr && t.right == nullptr;
  }
  NormForm get() const { return {mean, scale, shift, left, right, linear}; }
  std::vector<float> ones;
  float *mean, *scale, *shift, *rate;
  const float *left, *right;
  bool linear;
};

struct Moments {
  std::vector<double> mean, variance;
};

// Of every run its own moments about its first position, joined in order.
Moments batch_moments(const Norm& norm, const float* x, Team& team) {
  const std::size_t channels = z(norm.channels);
  const std::size_t positions = z(norm.n) * z(norm.h) * z(norm.w);
  const std::size_t runs = (positions + FLOAT_RUN - 1) / FLOAT_RUN;
  const NormKernels& rows = norm_table().best(norm.usable).kernels;
  const Pieces pieces(runs);
  const auto length = [&](std::size_t run) { return std::min(FLOAT_RUN, positions - run * FLOAT_RUN); };
  std::vector<float> sums(2 * channels * runs);
  team.run(pieces.count(), [&](int piece) {
    for (std::size_t run = pieces.first(piece); run < pieces.first(piece) + pieces.length(piece); ++run) {
      rows.moments(x + run * FLOAT_RUN * channels, length(run), norm.channels, sums.data() + 2 * channels * run);
    }
  });
  Moments found{std::vector<double>(channels), std::vector<double>(channels)};
  double before = 0;
  for (std::size_t run = 0; run < runs; ++run) {
    const float *sum = sums.data() + 2 * channels * run, *square = sum + channels;
    const float* first = x + run * FLOAT_RUN * channels;
    const double count = static_cast<double>(length(run)), total = before + count;
    for (std::size_t c = 0; c < channels; ++c) {
      const double shift = static_cast<double>(sum[c]) / count, apart = first[c] + shift - found.mean[c];
      found.mean[c] += apart * count / total;
      found.variance[c] += static_cast<double>(square[c]) - shift * sum[c] + apart * apart * before * count / total;
    }
    before = total;
  }
  for (double& variance : found.variance) variance = std::fmax(0.0, variance / before);
  return found;
}

void find_form(const Norm& norm, const NormTensors& t, const Form& form, Team& team) {
  const double positions = static_cast<double>(z(norm.n) * z(norm.h) * z(norm.w));
  Moments batch;
  if (norm.batch_stats) batch = batch_moments(norm, t.x, team);
  for (std::size_t c = 0; c < z(norm.channels); ++c) {
    const double mean = norm.batch_stats ? batch.mean[c] : t.running_mean[c];
    const double variance = norm.batch_stats ? batch.variance[c] : t.running_var[c];
    if (norm.batch_stats && t.new_mean != nullptr) {
      const double unbiased = variance * positions / (positions - 1);
      t.new_mean[c] = static_cast<float>((1 - norm.momentum) * t.running_mean[c] + norm.momentum * mean);
      t.new_var[c] = static_cast<float>((1 - norm.momentum) * t.running_var[c] + norm.momentum * unbiased);
    }
    const double rate = 1 / std::sqrt(variance + norm.eps);
    form.mean[c] = static_cast<float>(mean);
    form.rate[c] = static_cast<float>(rate);
    form.scale[c] = static_cast<float>((t.gamma != nullptr ? t.gamma[c] : 1.0) * rate);
    form.shift[c] = t.beta != nullptr ? t.beta[c] : 0.0F;
  }
}

// body(piece, first position, positions, gradient of z there) over the map in runs; a pool's gradient is made row by
// row, on a row of `scratch` for every piece.
class Gradient {
 public:
  Gradient(const Norm& norm, const float* grad, const std::uint8_t* taps)
      : norm_(norm),
        grad_(grad),
        taps_(taps),
        run_(norm.pool ? z(norm.w) : FLOAT_RUN),
        positions_(z(norm.n) * z(norm.h) * z(norm.w)),
        pieces_((positions_ + run_ - 1) / run_),
        pool_(pool_table().best(norm.usable).kernels),
        scratch_(norm.pool ? z(pieces_.count()) * row() : 0) {}

  int pieces() const { return pieces_.count(); }

  template <typename Body>
  void run(Team& team, const Body& body) {
    team.run(pieces(), [&](int piece) {
      for (std::size_t k = 0; k < pieces_.length(piece); ++k) {
        const std::size_t run = pieces_.first(piece) + k, first = run * run_;
        const float* dz = norm_.pool ? routed(piece, run) : grad_ + first * z(norm_.channels);
        body(piece, first, std::min(run_, positions_ - first), dz);
      }
    });
  }

 private:
  std::size_t row() const { return z(norm_.w) * z(norm_.channels); }

  const float* routed(int piece, std::size_t run) {
    const PoolShape& shape = *norm_.pool;
    const std::size_t at = run / z(norm_.h) * z(shape.oh) * z(shape.ow) * z(shape.channels);
    float* to = scratch_.data() + z(piece) * row();
    pool_.route(shape, grad_ + at, taps_ + at, static_cast<int>(run % z(norm_.h)), to);
    return to;
  }

  const Norm& norm_;
  const float* grad_;
  const std::uint8_t* taps_;
  std::size_t run_, positions_;
  Pieces pieces_;  // of runs
  const PoolKernels& pool_;
  std::vector<float> scratch_;
};

}  // namespace

void forward(const Norm& norm, const NormTensors& t, Team& team) {
  const Form form(norm, t);
  find_form(norm, t, form, team);
  const std::size_t channels = z(norm.channels);
  if (!norm.pool) {
    const NormKernels& kernels = norm_table().best(norm.usable).kernels;
    const Pieces pieces(z(norm.n) * z(norm.h) * z(norm.w));
    team.run(pieces.count(), [&](int piece) {
      const std::size_t at = pieces.first(piece) * channels;
      kernels.apply(t.x + at, from(t.shortcut, at), pieces.length(piece), norm.channels, form.get(), t.out + at);
    });
    return;
  }
  const PoolKernels& kernels = pool_table().best(norm.usable).kernels;
  const PoolShape& shape = *norm.pool;
  const Pieces rows(z(norm.n) * z(shape.oh));
  team.run(rows.count(), [&](int piece) {
    for (std::size_t row = rows.first(piece); row < rows.first(piece) + rows.length(piece); ++row) {
      const std::size_t to = row * z(shape.ow) * channels;
      kernels.largest(shape, t.x + row / z(shape.oh) * z(norm.h) * z(norm.w) * channels, form.get(),
                      static_cast<int>(row % z(shape.oh)), t.out + to, t.taps + to);
    }
  });
}

void backward(const Norm& norm, const NormTensors& t, Team& team) {
  const Form form(norm, t);
  const std::size_t channels = z(norm.channels), four = 4 * channels;
  const NormKernels& rows = norm_table().best(norm.usable).kernels;
  Gradient gradient(norm, t.grad, t.taps);

  std::vector<float> run(four * z(gradient.pieces()));
  std::vector<double> partial(four * z(gradient.pieces())), sums(four);
  gradient.run(team, [&](int piece, std::size_t first, std::size_t positions, const float* dz) {
    float* part = run.data() + four * z(piece);
    const std::size_t at = first * channels;
    rows.reduce(dz, t.x + at, from(t.shortcut, at), positions, norm.channels, form.get(), part);
    for (std::size_t k = 0; k < four; ++k) partial[four * z(piece) + k] += static_cast<double>(part[k]);
  });
  add_rows(partial, sums);

  const double positions = static_cast<double>(z(norm.n) * z(norm.h) * z(norm.w));
  std::vector<float> linear(channels), constant(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const double beta = sums[c], centered = sums[channels + c], scale = form.scale[c], rate = form.rate[c];
    linear[c] = static_cast<float>(-scale * rate * rate * centered / positions);
    constant[c] = static_cast<float>(-scale * beta / positions);
    if (t.beta_grad != nullptr) t.beta_grad[c] = static_cast<float>(beta);
    if (t.gamma_grad != nullptr) t.gamma_grad[c] = static_cast<float>(rate * centered);
    if (t.left_grad != nullptr) t.left_grad[c] = static_cast<float>(sums[2 * channels + c]);
    if (t.right_grad != nullptr) t.right_grad[c] = static_cast<float>(sums[3 * channels + c]);
  }
  if (t.x_grad == nullptr) return;
  gradient.run(team, [&](int, std::size_t first, std::size_t positions_here, const float* dz) {
    const std::size_t at = first * channels;
    rows.differentiate(dz, t.x + at, from(t.shortcut, at), positions_here, norm.channels, form.get(),
                       norm.batch_stats ? linear.data() : nullptr, norm.batch_stats ? constant.data() : nullptr,
                       t.x_grad + at, from(t.shortcut_grad, at));
  });
}

}  // namespace ftbnn::training
