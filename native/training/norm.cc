#include "training/norm.h"

#include <cmath>
#include <vector>

#include "base/scratch.h"
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

// Of every run of positions its own moments about its first position; joined in order.
class RunMoments {
 public:
  RunMoments(const Norm& norm, const float* x, std::size_t run)
      : x_(x),
        channels_(z(norm.channels)),
        positions_(z(norm.n) * z(norm.h) * z(norm.w)),
        run_(run),
        sums_(2 * channels_ * runs()),
        rows_(norm_table().best(norm.usable).kernels) {}

  std::size_t runs() const { return (positions_ + run_ - 1) / run_; }

  void add(std::size_t run) {
    rows_.moments(first(run), length(run), static_cast<int>(channels_), sums_.data() + 2 * channels_ * run);
  }

  Moments joined() const {
    Moments found{std::vector<double>(channels_), std::vector<double>(channels_)};
    double before = 0;
    for (std::size_t run = 0; run < runs(); ++run) {
      const float *sum = sums_.data() + 2 * channels_ * run, *square = sum + channels_;
      const double count = static_cast<double>(length(run)), total = before + count;
      for (std::size_t c = 0; c < channels_; ++c) {
        const double shift = static_cast<double>(sum[c]) / count, apart = first(run)[c] + shift - found.mean[c];
        found.mean[c] += apart * count / total;
        found.variance[c] += static_cast<double>(square[c]) - shift * sum[c] + apart * apart * before * count / total;
      }
      before = total;
    }
    for (double& variance : found.variance) variance = std::fmax(0.0, variance / before);
    return found;
  }

 private:
  const float* first(std::size_t run) const { return x_ + run * run_ * channels_; }
  std::size_t length(std::size_t run) const { return std::min(run_, positions_ - run * run_); }

  const float* x_;
  std::size_t channels_, positions_, run_;
  std::vector<float> sums_;
  const NormKernels& rows_;
};

Moments batch_moments(const Norm& norm, const float* x, Team& team) {
  RunMoments moments(norm, x, FLOAT_RUN);
  const Pieces pieces(moments.runs());
  team.run(pieces.count(), [&](int piece) {
    for (std::size_t k = 0; k < pieces.length(piece); ++k) moments.add(pieces.first(piece) + k);
  });
  return moments.joined();
}

// Makes x as well.
Moments batch_moments(const Norm& norm, const float* x, Team& team, const NormSource& source) {
  RunMoments moments(norm, x, z(norm.w));
  source.make(team, [&](std::size_t row) {
    if (norm.batch_stats) moments.add(row);
  });
  return norm.batch_stats ? moments.joined() : Moments{};
}

void find_form(const Norm& norm, const NormTensors& t, const Form& form, const Moments& batch) {
  const double positions = static_cast<double>(z(norm.n) * z(norm.h) * z(norm.w));
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
        const float* dz =
            norm_.pool ? of_row(run, scratch_.data() + z(piece) * row()) : grad_ + first * z(norm_.channels);
        body(piece, first, std::min(run_, positions_ - first), dz);
      }
    });
  }

  std::size_t row() const { return z(norm_.w) * z(norm_.channels); }

  // Of one row of all images; that of a pool is made on `scratch`.
  const float* of_row(std::size_t row_at, float* scratch) const {
    if (!norm_.pool) return grad_ + row_at * row();
    const PoolShape& shape = *norm_.pool;
    const std::size_t at = row_at / z(norm_.h) * z(shape.oh) * z(shape.ow) * z(shape.channels);
    pool_.route(shape, grad_ + at, taps_ + at, static_cast<int>(row_at % z(norm_.h)), scratch);
    return scratch;
  }

 private:
  const Norm& norm_;
  const float* grad_;
  const std::uint8_t* taps_;
  std::size_t run_, positions_;
  Pieces pieces_;  // of runs
  const PoolKernels& pool_;
  std::vector<float> scratch_;
};

// Four sums of each channel: single precision within a run, double over the runs of a piece, the pieces in their order.
class FourSums {
 public:
  FourSums(int channels, int pieces) : four_(4 * z(channels)), run_(four_ * z(pieces)), partial_(four_ * z(pieces)) {}

  // reduce(to) makes those of a run.
  template <typename Reduce>
  void add(int piece, const Reduce& reduce) {
    float* to = run_.data() + four_ * z(piece);
    reduce(to);
    for (std::size_t k = 0; k < four_; ++k) partial_[four_ * z(piece) + k] += static_cast<double>(to[k]);
  }

  std::vector<double> total() const {
    std::vector<double> sums(four_);
    add_rows(partial_, sums);
    return sums;
  }

 private:
  std::size_t four_;
  std::vector<float> run_;
  std::vector<double> partial_;
};

// Over all positions: dz, dz * (x - mean) and the slopes' gradients.
std::vector<double> sums_of_map(const Norm& norm, const NormTensors& t, const Form& form, Gradient& gradient,
                                Team& team) {
  const NormKernels& rows = norm_table().best(norm.usable).kernels;
  FourSums sums(norm.channels, gradient.pieces());
  gradient.run(team, [&](int piece, std::size_t first, std::size_t positions, const float* dz) {
    const std::size_t at = first * z(norm.channels);
    sums.add(piece, [&](float* to) {
      rows.reduce(dz, t.x + at, from(t.shortcut, at), positions, norm.channels, form.get(), to);
    });
  });
  return sums.total();
}

// Whether a pool's outputs say what x - mean was where they came from: z - shift is scale times that.
bool has_digits(const Norm& norm, const Form& form) {
  constexpr float MOST = 64;  // shift beside scale; so many times is the error of z that of x - mean
  if (!norm.pool) return false;
  for (std::size_t c = 0; c < z(norm.channels); ++c) {
    if (!(std::fabs(form.shift[c]) < MOST * std::fabs(form.scale[c]))) return false;
  }
  return true;
}

// The same from a pool's outputs, a quarter of the map or less, and no gradient is routed for it.
std::vector<double> sums_of_outputs(const Norm& norm, const NormTensors& t, const Form& form, Team& team) {
  const std::size_t channels = z(norm.channels), positions = z(norm.n) * z(norm.pool->oh) * z(norm.pool->ow);
  const NormKernels& rows = norm_table().best(norm.usable).kernels;
  const NormForm about_shift = {form.shift, nullptr, nullptr, nullptr, nullptr, true};
  const Pieces pieces((positions + FLOAT_RUN - 1) / FLOAT_RUN);  // of runs
  FourSums sums(norm.channels, pieces.count());
  team.run(pieces.count(), [&](int piece) {
    for (std::size_t k = 0; k < pieces.length(piece); ++k) {
      const std::size_t first = (pieces.first(piece) + k) * FLOAT_RUN, at = first * channels;
      sums.add(piece, [&](float* to) {
        rows.reduce(t.grad + at, t.out + at, nullptr, std::min(FLOAT_RUN, positions - first), norm.channels,
                    about_shift, to);
      });
    }
  });
  std::vector<double> found = sums.total();
  for (std::size_t c = 0; c < channels; ++c) found[channels + c] /= static_cast<double>(form.scale[c]);
  return found;
}

}  // namespace

void forward(const Norm& norm, const NormTensors& t, Team& team, const NormSource* source) {
  const Form form(norm, t);
  Moments batch;
  if (source != nullptr) {
    batch = batch_moments(norm, t.x, team, *source);
  } else if (norm.batch_stats) {
    batch = batch_moments(norm, t.x, team);
  }
  find_form(norm, t, form, batch);
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

void backward(const Norm& norm, const NormTensors& t, Team& team, const NormSource* source) {
  const Form form(norm, t);
  const std::size_t channels = z(norm.channels);
  const NormKernels& rows = norm_table().best(norm.usable).kernels;
  Gradient gradient(norm, t.grad, t.taps);

  const std::vector<double> sums =
      has_digits(norm, form) ? sums_of_outputs(norm, t, form, team) : sums_of_map(norm, t, form, gradient, team);

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
  const auto differentiate = [&](std::size_t first, std::size_t count, const float* dz, float* to, float* beside) {
    const std::size_t at = first * channels;
    rows.differentiate(dz, t.x + at, from(t.shortcut, at), count, norm.channels, form.get(),
                       norm.batch_stats ? linear.data() : nullptr, norm.batch_stats ? constant.data() : nullptr, to,
                       beside);
  };
  if (source != nullptr) {
    source->take(team, [&](std::size_t row) {
      static thread_local Scratch scratch;
      scratch.restart();
      float* routed = scratch.take<float>(gradient.row());
      float* to = scratch.take<float>(gradient.row());
      differentiate(row * z(norm.w), z(norm.w), gradient.of_row(row, routed), to, nullptr);
      return to;
    });
  } else if (t.x_grad != nullptr) {
    gradient.run(team, [&](int, std::size_t first, std::size_t count, const float* dz) {
      differentiate(first, count, dz, t.x_grad + first * channels, from(t.shortcut_grad, first * channels));
    });
  }
}

}  // namespace ftbnn::training
