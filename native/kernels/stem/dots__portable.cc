// For any CPU: plain loops, every product and sum of floats rounded by itself. This is what a network written as C
// does.
#include <cstring>

#include "kernels/epilogue/epilogue__portable.h"
#include "kernels/stem/dots.h"

namespace ftbnn {

namespace {

template <typename Pixel>
void planes(const PlaneRow& row) {
  for (int x = 0; x < row.width; ++x) {
    for (int c = 0; c < row.channels; ++c) {
      const Pixel pixel = row.in[x * row.channels + c];
      std::memcpy(row.out[c] + static_cast<std::size_t>(x) * sizeof(Pixel), &pixel, sizeof(Pixel));
    }
  }
}

template <typename Pixel, typename Weight>
std::int32_t dot(const std::uint8_t* pixels, std::int32_t weights) {
  Pixel p[4 / sizeof(Pixel)];
  Weight w[4 / sizeof(Weight)];
  std::memcpy(p, pixels, 4);
  std::memcpy(w, &weights, 4);
  std::int32_t sum = 0;
  for (std::size_t k = 0; k < 4 / sizeof(Pixel); ++k) sum += p[k] * w[k];
  return sum;
}

template <typename Pixel, typename Weight>
void dot_row(const DotRow& row) {
  for (int x = 0; x < row.width; ++x) {
    const std::uint8_t* in = row.in + static_cast<std::size_t>(x) * static_cast<std::size_t>(row.step);
    const std::int32_t* weights = row.weights;
    float acc[PANEL];
    for (int plane = 0; plane < row.planes; ++plane, in += row.plane_stride) {
      std::int32_t sums[PANEL] = {};
      for (int k = 0; k < row.quads; ++k, weights += PANEL) {
        for (int o = 0; o < row.channels; ++o) sums[o] += dot<Pixel, Weight>(in + row.places[k], weights[o]);
      }
      for (int o = 0; o < row.channels; ++o) {
        const auto sum = static_cast<float>(sums[o]);
        acc[o] = plane == 0 ? sum : row.ratio[plane] * sum + acc[o];
      }
    }
    Epilogue end = row.end;
    end.shift = row.offset + row.border[x] * PANEL;
    finish(end, static_cast<std::size_t>(x), row.channels, acc);
  }
}

}  // namespace

extern const DotKernels dots__portable;
const DotKernels dots__portable = {{planes<std::uint8_t>, dot_row<std::uint8_t, std::int8_t>},
                                   {planes<std::uint16_t>, dot_row<std::uint16_t, std::int16_t>}};

}  // namespace ftbnn
