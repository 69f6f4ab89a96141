#include <cstring>

#include "kernels/stem/layouts.h"
#include "tests/reference.h"

namespace ftbnn {

namespace {

template <typename Pixel>
void planes(const PlaneRow& row) {
  for (int c = 0; c < row.channels; ++c) {
    for (int x = 0; x < row.width; ++x) {
      const Pixel pixel = row.in[x * row.channels + c];
      std::memcpy(row.out[c] + static_cast<std::size_t>(x) * sizeof(Pixel), &pixel, sizeof(Pixel));
    }
  }
}

template <typename Pixel, typename Weight>
void dot_row(const DotRow& row) {
  constexpr int of_quad = 4 / sizeof(Pixel);
  for (int x = 0; x < row.width; ++x) {
    float acc[PANEL] = {};
    for (int o = 0; o < row.channels; ++o) {
      for (int plane = 0; plane < row.planes; ++plane) {
        std::int32_t sum = 0;
        for (int quad = 0; quad < row.quads; ++quad) {
          Weight weights[of_quad];
          std::memcpy(weights, row.weights + (plane * row.quads + quad) * PANEL + o, sizeof weights);
          for (int k = 0; k < of_quad; ++k) {
            Pixel pixel;
            const std::size_t at = plane * row.plane_stride + row.places[quad] + static_cast<std::size_t>(x * row.step);
            std::memcpy(&pixel, row.in + at + k * sizeof pixel, sizeof pixel);
            sum += pixel * weights[k];
          }
        }
        acc[o] += row.ratio[plane] * static_cast<float>(sum);
      }
    }
    Epilogue end = row.end;
    end.shift = row.offset + row.border[x] * PANEL;
    reference_finish(end, static_cast<std::size_t>(x), row.channels, acc);
  }
}

}  // namespace

extern const DotKernels dots__reference;
const DotKernels dots__reference = {{planes<std::uint8_t>, dot_row<std::uint8_t, std::int8_t>},
                                    {planes<std::uint16_t>, dot_row<std::uint16_t, std::int16_t>}};

StemKernels reference_dots() { return by_dots<dots__reference>(); }

}  // namespace ftbnn
