// Images in memory as a training step wants them.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>

#include "bindings/module.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <typename T, int Dimensions>
using Array = nb::ndarray<T, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;

// out[n][y][x][c] = table[c][pixel (y + tops[n], x + lefts[n]) of image which[n], with a border of `pad` zeros]; where
// mirrored[n], columns of the view are counted from its right.
void view(const Array<const std::uint8_t, 4>& images, const Array<const std::int64_t, 1>& which,
          const Array<const std::int64_t, 1>& tops, const Array<const std::int64_t, 1>& lefts,
          const Array<const bool, 1>& mirrored, int pad, const Array<const float, 2>& table,
          const Array<float, 4>& out) {
  const auto count = static_cast<std::int64_t>(images.shape(0)), views = static_cast<std::int64_t>(which.shape(0));
  const auto channels = static_cast<std::int64_t>(images.shape(1));
  const auto height = static_cast<std::int64_t>(images.shape(2)), width = static_cast<std::int64_t>(images.shape(3));
  const bool fits = table.shape(0) == images.shape(1) && table.shape(1) == 256 && out.shape(0) == which.shape(0) &&
                    out.shape(1) == images.shape(2) && out.shape(2) == images.shape(3) &&
                    out.shape(3) == images.shape(1) && tops.shape(0) == which.shape(0) &&
                    lefts.shape(0) == which.shape(0) && mirrored.shape(0) == which.shape(0);
  if (!fits) throw nb::value_error("the sizes of images, views and table do not fit");
  for (std::int64_t n = 0; n < views; ++n) {
    if (which(n) < 0 || which(n) >= count) throw nb::value_error("there is no such image");
  }
  const nb::gil_scoped_release release;
  for (std::int64_t n = 0; n < views; ++n) {
    const std::int64_t down = tops(n) - pad, right = lefts(n) - pad;
    const bool flips = mirrored(n);
    const std::int64_t step = flips ? -channels : channels;
    // Columns of the view, before it is mirrored, that lie in the image.
    const std::int64_t first = std::clamp<std::int64_t>(-right, 0, width);
    const std::int64_t last = std::clamp<std::int64_t>(width - right, first, width);
    for (std::int64_t y = 0; y < height; ++y) {
      const std::int64_t row = y + down;
      const bool is_inside = row >= 0 && row < height;
      for (std::int64_t c = 0; c < channels; ++c) {
        const float* values = table.data() + c * 256;
        float* const to = out.data() + ((n * height + y) * width + (flips ? width - 1 : 0)) * channels + c;
        if (!is_inside || first > 0 || last < width) {
          for (std::int64_t x = 0; x < width; ++x) to[x * step] = values[0];
        }
        if (!is_inside) continue;
        const std::uint8_t* from = images.data() + ((which(n) * channels + c) * height + row) * width + right;
        for (std::int64_t x = first; x < last; ++x) to[x * step] = values[from[x]];
      }
    }
  }
}

}  // namespace

void bind_data(nb::module_ m) {
  m.doc() = "Images in memory as a training step wants them.";
  m.def("view", &view, "images"_a, "which"_a, "tops"_a, "lefts"_a, "mirrored"_a, "pad"_a, "table"_a, "out"_a,
        "Cuts views out of images of bytes, mirrors some and looks every pixel up in its channel's table of floats. In "
        "one pass, on the calling thread.");
}
