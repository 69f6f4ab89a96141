#include "training/real_conv.h"

#include <algorithm>

#include "base/scratch.h"
#include "base/table.h"
#include "kernels/real_conv/real_conv.h"
#include "training/pieces.h"

namespace ftbnn::training {

namespace {

std::size_t z(int value) { return static_cast<std::size_t>(value); }

constexpr std::size_t BAND_FLOATS = 16384;   // of an image with its border, that a task copies at a time
constexpr std::size_t MOST_SUMS = 1U << 20;  // floats that pieces of the weights' gradient take together
constexpr std::size_t MOST_PIECES = 16, LEAST_PIECES = 4;

// The images in bands of output rows; what a band reads is copied with its border.
class Bands {
 public:
  explicit Bands(const BatchShape& shape) : s_(shape), line_(z(s_.columns()) * z(s_.in)) {
    const int lines = static_cast<int>(std::min<std::size_t>(BAND_FLOATS / line_, z(s_.rows())));
    rows_ = std::clamp((lines - s_.kh) / s_.sh + 1, 1, s_.oh);
    per_image_ = (s_.oh + rows_ - 1) / rows_;
  }

  std::size_t count() const { return z(s_.n) * z(per_image_); }

  // body(task, row) for the rows of a band, which are numbered through all images.
  template <typename Body>
  void run(std::size_t band, const float* x, const Body& body) const {
    static thread_local Scratch scratch;
    scratch.restart();
    const std::size_t image = band / z(per_image_);
    const int first = static_cast<int>(band % z(per_image_)) * rows_, last = std::min(first + rows_, s_.oh);
    const int lines = (last - first - 1) * s_.sh + s_.kh;
    float* copied = scratch.take<float>(z(lines) * line_);
    for (int line = 0; line < lines; ++line) {
      copy_line(x + image * z(s_.h) * z(s_.w) * z(s_.in), first * s_.sh + line - s_.ph, copied + z(line) * line_);
    }
    for (int y = first; y < last; ++y) {
      const float* at = copied + z(y - first) * z(s_.sh) * line_;
      body(RealTask{at, z(s_.sw) * z(s_.in), line_, s_.kh, s_.kw * s_.in, s_.ow}, image * z(s_.oh) + z(y));
    }
  }

 private:
  void copy_line(const float* image, int y, float* to) const {
    float* const end = to + line_;
    if (y >= 0 && y < s_.h) {
      const std::size_t size = z(s_.w) * z(s_.in);
      to = std::fill_n(to, z(s_.pw) * z(s_.in), 0.0F);
      to = std::copy_n(image + z(y) * size, size, to);
    }
    std::fill(to, end, 0.0F);
  }

  const BatchShape& s_;
  std::size_t line_;  // floats of a row of the image with its border
  int rows_, per_image_;
};

// Weights in panels, as kernels/real_conv/real_conv.h has them, and where each stands among those of PyTorch.
class Panels {
 public:
  Panels(const RealConv& conv, int lanes) : conv_(conv), lanes_(lanes) {}
  int count() const { return (conv_.shape.out + lanes_ - 1) / lanes_; }
  int channels(int panel) const { return std::min(lanes_, conv_.shape.out - panel * lanes_); }
  std::size_t channel(int panel) const { return z(panel) * z(lanes_); }
  std::size_t at(int panel) const { return channel(panel) * depth(); }

  // body(place in the panels, place in PyTorch's) for every weight of a panel.
  template <typename Body>
  void each(int panel, const Body& body) const {
    const std::size_t in = z(conv_.shape.in), taps = z(conv_.shape.taps());
    for (std::size_t k = 0; k < depth(); ++k) {
      const std::size_t of_output = conv_.weight_is_last ? k : k % in * taps + k / in;
      for (int o = 0; o < channels(panel); ++o)
        body(at(panel) + k * z(lanes_) + z(o), (channel(panel) + z(o)) * depth() + of_output);
    }
  }

 private:
  std::size_t depth() const { return z(conv_.shape.taps()) * z(conv_.shape.in); }

  const RealConv& conv_;
  int lanes_;
};

// Kept from call to call: there is one caller at a time.
Scratch& scratch() {
  static Scratch found;
  found.restart();
  return found;
}

// Rows of `channels` floats as rows of `lanes`, zeros behind.
const float* widened(const float* from, int count, std::size_t stride, int channels, int lanes) {
  static thread_local Scratch own;
  own.restart();
  float* const wide = own.take<float>(z(count) * z(lanes));
  for (int p = 0; p < count; ++p) {
    std::fill_n(std::copy_n(from + z(p) * stride, channels, wide + z(p) * z(lanes)), lanes - channels, 0.0F);
  }
  return wide;
}

}  // namespace

void forward(const RealConv& conv, const float* x, const float* weight, float* out, Team& team,
             const std::function<void(std::size_t row)>& made) {
  const RealConvKernels& kernels = real_conv_table().best(conv.usable).kernels;
  const Panels panels(conv, kernels.lanes);
  float* weights = scratch().take<float>(panels.at(panels.count()));
  std::fill_n(weights, panels.at(panels.count()), 0.0F);
  for (int panel = 0; panel < panels.count(); ++panel) {
    panels.each(panel, [&](std::size_t to, std::size_t from) { weights[to] = weight[from]; });
  }
  const Bands bands(conv.shape);
  const Pieces pieces(bands.count(), 1);
  const std::size_t stride = z(conv.shape.out);
  team.run(pieces.count(), [&](int piece) {
    for (std::size_t k = 0; k < pieces.length(piece); ++k) {
      bands.run(pieces.first(piece) + k, x, [&](const RealTask& task, std::size_t row) {
        float* to = out + row * z(conv.shape.ow) * stride;
        for (int panel = 0; panel < panels.count(); ++panel) {
          kernels.forward(task, weights + panels.at(panel), panels.channels(panel), to + panels.channel(panel), stride);
        }
        made(row);
      });
    }
  });
}

void backward(const RealConv& conv, const float* x, const std::function<const float*(std::size_t row)>& grad,
              float* weight_grad, Team& team) {
  const RealConvKernels& kernels = real_conv_table().best(conv.usable).kernels;
  const Panels panels(conv, kernels.lanes);
  const Bands bands(conv.shape);
  const std::size_t size = panels.at(panels.count()), stride = z(conv.shape.out);
  const std::size_t most = std::clamp(MOST_SUMS / size, LEAST_PIECES, MOST_PIECES);
  const Pieces pieces(bands.count(), (bands.count() + most - 1) / most);
  float* sums = scratch().take<float>(size * z(pieces.count()));
  team.run(pieces.count(), [&](int piece) {
    float* part = sums + size * z(piece);
    std::fill_n(part, size, 0.0F);
    for (std::size_t k = 0; k < pieces.length(piece); ++k) {
      bands.run(pieces.first(piece) + k, x, [&](const RealTask& task, std::size_t row) {
        const float* of_row = grad(row);
        for (int panel = 0; panel < panels.count(); ++panel) {
          const int channels = panels.channels(panel), half = kernels.lanes / 2;
          const int lanes = channels > half ? kernels.lanes : half;
          const float* from = of_row + panels.channel(panel);
          const bool is_whole = channels == lanes;
          if (!is_whole) from = widened(from, task.positions, stride, channels, lanes);
          kernels.weight_gradient(task, from, is_whole ? stride : z(lanes), lanes == half, part + panels.at(panel));
        }
      });
    }
  });
  team.run(panels.count(), [&](int panel) {
    panels.each(panel, [&](std::size_t from, std::size_t to) {
      float sum = 0;
      for (int piece = 0; piece < pieces.count(); ++piece) sum += sums[size * z(piece) + from];
      weight_grad[to] = sum;
    });
  });
}

}  // namespace ftbnn::training
