// Stems of stride 2 by Winograd's method (winograd.h): the image by planes, weights as [panel][36][K][PANEL].
#include "kernels/conv/winograd.h"

#include <algorithm>

#include "base/aligned.h"
#include "kernels/conv/layouts.h"

namespace ftbnn {

namespace {

constexpr int TAPS = 4, SIDES = 2;       // of the window of stride 1; phases of a row or column
constexpr int STEP = SIDES * TILE;       // rows or columns from one tile to the next
constexpr int MOST_CHANNELS = 4;         // so that transformations are little beside the products
constexpr int LEAST_OUTPUTS = 4 * TILE;  // in a row, or the last tile's waste is too much
constexpr std::size_t POINTS_2D = std::size_t{POINTS} * POINTS;

constexpr double G[POINTS][TAPS] = {{1. / 4, 0, 0, 0},
                                    {-1. / 6, -1. / 6, -1. / 6, -1. / 6},
                                    {-1. / 6, 1. / 6, -1. / 6, 1. / 6},
                                    {1. / 24, 1. / 12, 1. / 6, 1. / 3},
                                    {1. / 24, -1. / 12, 1. / 6, -1. / 3},
                                    {0, 0, 0, 1}};

std::size_t z(int value) { return static_cast<std::size_t>(value); }

// The image by planes.
struct Planes {
  explicit Planes(const ConvShape& s)
      : channels(z(s.in)),
        tile_rows(z((s.oh + TILE - 1) / TILE)),
        tiles(round_up(z((s.ow + TILE - 1) / TILE) + 1, 16)),  // and the columns that reach into the next
        row(z(STEP) * channels * tiles),
        rows((tile_rows + 1) * z(STEP)) {}
  std::size_t k() const { return z(SIDES * SIDES) * channels; }
  std::size_t bytes() const { return (rows * row + 16) * sizeof(float); }
  // V, a plane on its way, of which a vector may be read past its end, and M.
  std::size_t scratch() const {
    return (POINTS_2D * (k() * tiles + z(MOST_TILES) * PANEL) + (POINTS * TILE + 1) * tiles) * sizeof(float);
  }

  std::size_t channels, tile_rows, tiles, row, rows;  // `row`: floats
};

class WinogradConv final : public Conv {
 public:
  WinogradConv(const ConvShape& shape, const float* weights, const WinogradKernels& kernels)
      : s_(shape), planes_(shape), kernels_(kernels), panels_(panels_of(shape.outs())) {
    u_ = AlignedArray<float>(panels_.size() * panel_floats());
    for (int o = 0; o < s_.out; ++o) {
      float* to = u_.data() + z(o / PANEL) * panel_floats() + z(o % PANEL);
      for (int c = 0; c < s_.in; ++c, weights += s_.taps()) {
        for (int phase = 0; phase < SIDES * SIDES; ++phase) {
          transform_weights(weights, phase / SIDES, phase % SIDES, to + (z(phase) * planes_.channels + z(c)) * PANEL);
        }
      }
    }
  }

  std::size_t arranged_bytes() const override { return planes_.bytes(); }
  std::size_t scratch_bytes() const override { return planes_.scratch(); }
  bool arranges() const override { return true; }

  void arrange(int first, int last, const RealImage& image, void* arranged) const override {
    const std::size_t end = z((last - 1) / TILE + 2) * z(STEP);  // a tile reads those of the next too
    for (std::size_t row = z(first / TILE) * z(STEP); row < end; ++row) {
      float* to = static_cast<float*>(arranged) + row * planes_.row;
      const std::ptrdiff_t line = static_cast<std::ptrdiff_t>(row) - s_.ph;
      if (line < 0 || line >= s_.h) {
        std::fill_n(to, planes_.row, 0.0F);
      } else {
        arrange_row(image.at + z(static_cast<int>(line)) * image.row, to);
      }
    }
  }

  void run(const ConvCall& call) const override {
    auto* v = static_cast<float*>(call.scratch);
    WinogradInputs inputs{};
    inputs.row_stride = planes_.row;
    inputs.channels = s_.in;
    inputs.tiles = planes_.tiles;
    inputs.v = v;
    inputs.column = v + POINTS_2D * planes_.k() * planes_.tiles;
    WinogradTiles tiles{};
    tiles.v = v;
    tiles.m = inputs.column + (POINTS * TILE + 1) * planes_.tiles;
    tiles.tiles = planes_.tiles;
    tiles.k = static_cast<int>(planes_.k());
    tiles.width = s_.ow;
    Epilogue rows = call.end;
    for (int y = call.first; y < call.last; y += tiles.last - tiles.first) {
      const int top = y / TILE * TILE;
      inputs.rows = static_cast<const float*>(call.arranged) + z(top) * z(s_.sh) * planes_.row;
      kernels_.transform(inputs);
      tiles.first = y - top;
      tiles.last = std::min(TILE, call.last - top);
      for (int panel = 0; panel < call.panels; ++panel) {
        tiles.u = u_.data() + z(call.panel + panel) * panel_floats();
        tiles.channels = panels_[z(call.panel + panel)].channels;
        tiles.end = of_panel(rows, panel);
        kernels_.multiply(tiles);
      }
      for (int row = tiles.first; row < tiles.last; ++row) next_row(rows);
    }
  }

 private:
  void arrange_row(const float* from, float* to) const {
    // Tiles all of whose columns are inside, then those at the edge.
    const int first = (s_.pw + STEP - 1) / STEP,
              last = std::clamp((s_.pw + s_.w) / STEP, first, static_cast<int>(planes_.tiles));
    const std::size_t width = z(STEP) * planes_.channels, tiles = planes_.tiles;
    kernels_.split({from + z(first * STEP - s_.pw) * planes_.channels, width, z(last - first), to + first, tiles});
    const auto at_edge = [&](int t) {
      for (int phase = 0; phase < STEP; ++phase) {
        const int column = t * STEP + phase - s_.pw;
        for (std::size_t c = 0; c < planes_.channels; ++c) {
          const bool is_inside = column >= 0 && column < s_.w;
          to[(z(phase) * planes_.channels + c) * tiles + z(t)] = is_inside ? from[z(column) * planes_.channels + c] : 0;
        }
      }
    };
    const int end = std::min((s_.pw + s_.w + STEP - 1) / STEP, static_cast<int>(tiles));
    for (int t = 0; t < first; ++t) at_edge(t);
    for (int t = last; t < end; ++t) at_edge(t);
    for (std::size_t k = 0; k < width; ++k) std::fill(to + k * tiles + z(end), to + (k + 1) * tiles, 0.0F);
  }

  std::size_t panel_floats() const { return POINTS_2D * planes_.k() * PANEL; }

  // G g G' of the taps of one phase.
  void transform_weights(const float* weights, int side_y, int side_x, float* to) const {
    double half[POINTS][TAPS] = {};
    const auto tap = [&](int ty, int tx) -> double {
      const int y = SIDES * ty + side_y, x = SIDES * tx + side_x;
      return y < s_.kh && x < s_.kw ? weights[y * s_.kw + x] : 0;
    };
    for (int i = 0; i < POINTS; ++i) {
      for (int tx = 0; tx < TAPS; ++tx) {
        for (int ty = 0; ty < TAPS; ++ty) half[i][tx] += G[i][ty] * tap(ty, tx);
      }
    }
    for (int i = 0; i < POINTS; ++i) {
      for (int j = 0; j < POINTS; ++j) {
        double sum = 0;
        for (int tx = 0; tx < TAPS; ++tx) sum += half[i][tx] * G[j][tx];
        to[z(i * POINTS + j) * planes_.k() * PANEL] = static_cast<float>(sum);
      }
    }
  }

  const ConvShape s_;
  const Planes planes_;
  const WinogradKernels& kernels_;
  const std::vector<Panel> panels_;
  AlignedArray<float> u_;
};

}  // namespace

bool suits_winograd(const ConvShape& s) {
  const auto fits = [](int kernel, int stride) {
    return kernel >= 2 * TAPS - 1 && kernel <= 2 * TAPS && stride == SIDES;
  };
  return s.groups == 1 && s.in <= MOST_CHANNELS && fits(s.kh, s.sh) && fits(s.kw, s.sw) && s.oh >= LEAST_OUTPUTS &&
         s.ow >= LEAST_OUTPUTS;
}

Sizes winograd_sizes(const ConvShape& s) {
  const Planes planes(s);
  return {panel_count(s.outs()) * POINTS_2D * planes.k() * PANEL * sizeof(float), planes.bytes(), planes.scratch()};
}

std::unique_ptr<Conv> make_by_winograd(const ConvShape& shape, const float* weights, const WinogradKernels& kernels) {
  return std::make_unique<WinogradConv>(shape, weights, kernels);
}

}  // namespace ftbnn
