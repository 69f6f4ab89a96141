// The small row kernels, for tests; native/kernels/rows.h is the contract.
#include "bindings_rows.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings_arrays.h"
#include "bindings_tiles.h"
#include "kernels/table.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// Arrays are [..., position, channel], channels side by side.
template <typename Array>
int extent(const Array& array, std::size_t axis) {
  return static_cast<int>(array.shape(axis));
}

template <typename Array>
std::size_t stride(const Array& array, std::size_t axis) {
  const auto last = array.ndim() - 1;
  require(array.stride(last) == 1 && array.stride(axis) >= 0, "channels must lie side by side");
  return static_cast<std::size_t>(array.stride(axis));
}

const ftbnn::Kernels& tile_kernels(const std::string& isa) {
  const ftbnn::Kernels* tiles = ftbnn::tile_kernels_named(isa);
  const ftbnn::Kernels& kernels = tiles != nullptr ? *tiles : ftbnn::kernels_named(isa);
  require(kernels.sliced_row != nullptr, "this ISA has no tiles");
  return kernels;
}

void pool_row(const std::string& isa, bool is_max, const Strided<const float, -1, -1, -1>& image, int kw, int step,
              int left, float divisor, const Strided<float, -1, -1>& out) {
  ftbnn::PoolRow row{};
  row.in = image.data();
  row.row_stride = stride(image, 0);
  row.in_stride = stride(image, 1);
  row.rows = extent(image, 0);
  row.columns = extent(image, 1);
  row.channels = extent(image, 2);
  row.kw = kw;
  row.stride = step;
  row.left = left;
  row.divisor = divisor;
  row.width = extent(out, 0);
  row.out = out.data();
  row.out_stride = stride(out, 0);
  require(extent(out, 1) == row.channels && row.rows >= 1 && step >= 1 && left >= 0 && left < kw &&
              (row.width - 1) * step - left < row.columns,
          "every window must touch the image");
  const ftbnn::RowKernels& rows = ftbnn::kernels_named(isa).rows;
  (is_max ? rows.max_pool_row : rows.average_pool_row)(row);
}

void sign_row(const std::string& isa, const Strided<const float, -1, -1>& in, int at,
              const Strided<std::uint64_t, -1, -1>& codes) {
  require(
      at >= 0 && extent(in, 1) >= 1 && extent(codes, 0) == extent(in, 0) && at + extent(in, 1) <= 64 * extent(codes, 1),
      "codes must be [width][words], with room for every channel");
  ftbnn::kernels_named(isa).rows.sign_row(
      {in.data(), stride(in, 0), extent(in, 0), extent(in, 1), at, codes.data(), stride(codes, 0)});
}

void ones_row(const std::string& isa, const Strided<const std::uint64_t, -1, -1, -1>& image, int kw, int step,
              const Strided<std::int32_t, -1>& columns, const Strided<std::int32_t, -1>& ones) {
  const int reach = (extent(ones, 0) - 1) * step + kw;
  require(reach <= extent(image, 1) && reach <= extent(columns, 0) && kw >= 1 && step >= 1 &&
              stride(image, 1) == image.shape(2),
          "image must be [kh][>= (width - 1) * stride + kw][words]");
  ftbnn::kernels_named(isa).rows.ones_row({image.data(), stride(image, 0), extent(image, 2), extent(image, 0), kw, step,
                                           extent(ones, 0), columns.data(), ones.data()});
}

void pointwise_row(const std::string& isa, const Strided<const float, -1, -1>& in,
                   const nb::ndarray<nb::numpy, const float, nb::shape<4, -1>, nb::c_contig>& scales, int act,
                   const std::optional<Strided<const float, -1, -1>>& shortcut, const Strided<float, -1, -1>& out) {
  const int width = extent(in, 0), channels = extent(in, 1);
  require(
      extent(scales, 1) == channels && extent(out, 0) == width && extent(out, 1) == channels && act >= 0 && act <= 3,
      "in and out must be [width][channels], scales [4][channels]");
  ftbnn::PointwiseRow row{in.data(), stride(in, 0), width, channels, {}};
  row.end.scale = scales.data();
  row.end.shift = row.end.scale + channels;
  row.end.left = row.end.shift + channels;
  row.end.right = row.end.left + channels;
  row.end.act = static_cast<ftbnn::Act>(act);
  if (shortcut) {
    require(extent(*shortcut, 0) == width && extent(*shortcut, 1) == channels, "shortcut must be [width][channels]");
    row.end.shortcut = shortcut->data();
    row.end.shortcut_stride = stride(*shortcut, 0);
  }
  row.end.out = out.data();
  row.end.out_stride = stride(out, 0);
  ftbnn::kernels_named(isa).rows.pointwise_row(row);
}

void interleave_row(const std::string& isa, const Strided<const float, -1, -1>& planes, const Strided<float, -1>& out) {
  require(out.shape(0) == planes.size(), "out must be [width * channels]");
  ftbnn::kernels_named(isa).rows.interleave_row(
      {planes.data(), stride(planes, 0), extent(planes, 1), extent(planes, 0), out.data()});
}

void normalise_row(const std::string& isa, const Strided<const std::uint8_t, -1>& in,
                   const nb::ndarray<nb::numpy, const float, nb::shape<2, -1>, nb::c_contig>& scales,
                   const Strided<float, -1>& out) {
  const int count = extent(in, 0);
  require(extent(scales, 1) == count && extent(out, 0) == count, "scales must be [2][elements], out [elements]");
  ftbnn::kernels_named(isa).rows.normalise_row({in.data(), scales.data(), scales.data() + count, count, out.data()});
}

// Patches of `width` windows, as patch_row makes them: pixels [kh][columns * channels] of int8.
void patch_row(const std::string& isa, const Strided<const std::int8_t, -1, -1>& pixels, int run, int step, int width,
               const Strided<std::int8_t, -1, -1>& patches) {
  const int kh = extent(pixels, 0), depth = extent(patches, 1);
  require(run >= 1 && step >= 1 && width >= 1 && width <= extent(patches, 0) && kh * run <= depth &&
              stride(patches, 0) == patches.shape(1) && (width - 1) * step + run <= extent(pixels, 1),
          "patches must be [>= width][>= kh * run], pixels [kh][>= (width - 1) * step + run]");
  tile_kernels(isa).patch_row({pixels.data(), stride(pixels, 0), kh, run, step, width, depth, patches.data()});
}

void sliced_row(const std::string& isa, const Strided<const std::int8_t, -1, -1>& patches,
                const Strided<const std::int8_t, -1>& weights, int width, int channels, int act,
                const nb::ndarray<nb::numpy, const float, nb::shape<4, ftbnn::PANEL>, nb::c_contig>& scales,
                const nb::ndarray<nb::numpy, const float, nb::shape<-1, ftbnn::PANEL>, nb::c_contig>& offset,
                const Strided<const std::uint8_t, -1>& border,
                const std::optional<Strided<const float, -1, -1>>& shortcut, const Strided<float, -1, -1>& out,
                const Strided<std::uint32_t, -1>& codes) {
  const int depth = extent(patches, 1);
  const auto address =
      reinterpret_cast<std::uintptr_t>(patches.data()) | reinterpret_cast<std::uintptr_t>(weights.data());
  require(depth % 64 == 0 && depth <= 512 && stride(patches, 0) == patches.shape(1) && address % 64 == 0 &&
              width >= 1 && (width + 15) / 16 * 16 <= extent(patches, 0),
          "patches must be [>= width rounded up to 16][multiple of 64], on a 64-byte boundary");
  require(extent(weights, 0) == ftbnn::SLICES * depth * ftbnn::PANEL && channels >= 1 && channels <= ftbnn::PANEL &&
              extent(border, 0) == width && extent(out, 0) == width && extent(out, 1) >= channels &&
              extent(codes, 0) == width && act >= 0 && act <= 3,
          "weights must be [3][depth / 64][2][16][16][4], border, out and codes [width]");
  for (int x = 0; x < width; ++x) require(border.data()[x] < offset.shape(0), "border names a class past offset");
  ftbnn::SlicedRow row{patches.data(), depth, width, channels, weights.data(), offset.data(), border.data(), {}};
  row.end.scale = scales.data();
  row.end.left = scales.data() + 2 * ftbnn::PANEL;
  row.end.right = scales.data() + 3 * ftbnn::PANEL;
  row.end.act = static_cast<ftbnn::Act>(act);
  if (shortcut) {
    require(extent(*shortcut, 0) == width && extent(*shortcut, 1) >= channels, "shortcut must be [width][channels]");
    row.end.shortcut = shortcut->data();
    row.end.shortcut_stride = stride(*shortcut, 0);
  }
  row.end.out = out.data();
  row.end.out_stride = stride(out, 0);
  row.end.codes = codes.data();
  row.end.codes_stride = 1;
  tile_kernels(isa).sliced_row(row);
}

}  // namespace

void bind_rows(nb::module_& m) {
  m.def("pool_row", &pool_row, "isa"_a, "is_max"_a, "image"_a.noconvert(), nb::kw_only(), "kw"_a, "stride"_a, "left"_a,
        "divisor"_a, "out"_a.noconvert(), "One row of a max-pool or average pool.");
  m.def("sign_row", &sign_row, "isa"_a, "row"_a.noconvert(), nb::kw_only(), "at"_a, "codes"_a.noconvert(),
        "Signs of a row, from bit `at` of each position on.");
  m.def("ones_row", &ones_row, "isa"_a, "image"_a.noconvert(), nb::kw_only(), "kw"_a, "stride"_a,
        "columns"_a.noconvert(), "ones"_a.noconvert(), "Ones in every window of a row.");
  m.def("pointwise_row", &pointwise_row, "isa"_a, "row"_a.noconvert(), nb::kw_only(), "scales"_a.noconvert(), "act"_a,
        "shortcut"_a.noconvert() = nb::none(), "out"_a.noconvert(), "The epilogue alone.");
  m.def("interleave_row", &interleave_row, "isa"_a, "planes"_a.noconvert(), nb::kw_only(), "out"_a.noconvert(),
        "Channels side by side.");
  m.def("normalise_row", &normalise_row, "isa"_a, "row"_a.noconvert(), nb::kw_only(), "scales"_a.noconvert(),
        "out"_a.noconvert(), "8-bit pixels to numbers.");
  m.def("patch_row", &patch_row, "isa"_a, "pixels"_a.noconvert(), nb::kw_only(), "run"_a, "step"_a, "width"_a,
        "patches"_a.noconvert(), "Windows of a row of pixels, each in one line.");
  m.def("sliced_row", &sliced_row, "isa"_a, "patches"_a.noconvert(), "weights"_a.noconvert(), nb::kw_only(), "width"_a,
        "channels"_a, "act"_a, "scales"_a.noconvert(), "offset"_a.noconvert(), "border"_a.noconvert(),
        "shortcut"_a.noconvert() = nb::none(), "out"_a.noconvert(), "codes"_a.noconvert(),
        "Convolution of one row of patches in integers; isa as for bconv_rows.");
}
