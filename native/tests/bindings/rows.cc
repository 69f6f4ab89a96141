// The small kernels, one row at a time; native/kernels/between/between.h is the contract.
#include "kernels/between/between.h"

#include "tests/bindings/ends.h"
#include "tests/bindings/module.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace ftbnn;

const BetweenKernels& between(const std::string& name) { return kernels_named(between_table(), name); }

void pool_row(const std::string& name, bool is_max, const Strided<const float, -1, -1, -1>& image, int kw, int stride,
              int left, float divisor, int again, const Strided<float, -1, -1>& out) {
  const int width = extent(out, 0), channels = extent(out, 1);
  require(extent(image, 2) == channels && step(image, 2) == 1 && step(out, 1) == 1 && kw >= 1 && stride >= 1 &&
              left >= 0 && left < kw && (width - 1) * stride - left < extent(image, 1),
          "every window must touch the image");
  require(again == 0 || (again >= channels && static_cast<std::size_t>(again + channels) <= step(out, 0)),
          "there is no room to write again");
  const PoolRow row{image.data(),
                    step(image, 0),
                    step(image, 1),
                    extent(image, 0),
                    kw,
                    stride,
                    left,
                    extent(image, 1),
                    divisor,
                    width,
                    channels,
                    out.data(),
                    step(out, 0),
                    static_cast<std::size_t>(again)};
  is_max ? between(name).max_pool_row(row) : between(name).average_pool_row(row);
}

void sign_row(const std::string& name, const Strided<const float, -1, -1>& in,
              const std::optional<Packed<float, -1>>& threshold, const Strided<std::uint64_t, -1, -1>& codes) {
  const int width = extent(in, 0), channels = extent(in, 1);
  require(extent(codes, 0) == width && 64 * extent(codes, 1) >= channels && step(in, 1) == 1 && step(codes, 1) == 1 &&
              (!threshold || extent(*threshold, 0) == channels),
          "codes must be [width][words], thresholds [channels]");
  between(name).sign_row(
      {in.data(), step(in, 0), threshold ? threshold->data() : nullptr, width, channels, codes.data(), step(codes, 0)});
}

void pointwise_row(const std::string& name, const Strided<const float, -1, -1>& in, const nb::dict& end) {
  const int width = extent(in, 0), channels = extent(in, 1);
  const Ends ends(end, {channels, 1}, 1, width);
  for (std::size_t k = 0; k < ends.panels().size(); ++k) {
    const Panel& panel = ends.panels()[k];
    between(name).pointwise_row(
        {in.data() + panel.first, step(in, 0), width, panel.channels, ends.at(static_cast<int>(k))});
  }
}

void interleave_row(const std::string& name, const Strided<const float, -1, -1>& planes,
                    const Strided<float, -1>& out) {
  require(out.shape(0) == planes.size(), "out must be [width * channels]");
  between(name).interleave_row({planes.data(), step(planes, 0), extent(planes, 1), extent(planes, 0), out.data()});
}

void normalise_row(const std::string& name, const Strided<const std::uint8_t, -1>& in,
                   const Packed<float, 2, -1>& scales, const Strided<float, -1>& out) {
  const int count = extent(in, 0);
  require(extent(scales, 1) == count && extent(out, 0) == count, "scales must be [2][elements], out [elements]");
  between(name).normalise_row({in.data(), scales.data(), scales.data() + count, count, out.data()});
}

void bend(const std::string& name, int curve, const Strided<float, -1>& values) {
  require(curve >= 0 && curve <= static_cast<int>(Curve::tanh), "no such curve");
  between(name).bend(static_cast<Curve>(curve), values.data(), values.shape(0));
}

}  // namespace

void bind_rows(nb::module_& m) {
  m.def("pool_row", &pool_row, "name"_a, "is_max"_a, "image"_a.noconvert(), nb::kw_only(), "kw"_a, "stride"_a, "left"_a,
        "divisor"_a, "again"_a = 0, "out"_a.noconvert(), "One row of a max-pool or average pool.");
  m.def("sign_row", &sign_row, "name"_a, "row"_a.noconvert(), nb::kw_only(), "threshold"_a.noconvert() = nb::none(),
        "codes"_a.noconvert(), "Signs of a row.");
  m.def("pointwise_row", &pointwise_row, "name"_a, "row"_a.noconvert(), "end"_a, "The epilogue alone.");
  m.def("interleave_row", &interleave_row, "name"_a, "planes"_a.noconvert(), nb::kw_only(), "out"_a.noconvert(),
        "Channels side by side.");
  m.def("normalise_row", &normalise_row, "name"_a, "row"_a.noconvert(), nb::kw_only(), "scales"_a.noconvert(),
        "out"_a.noconvert(), "8-bit pixels to numbers.");
  m.def("bend", &bend, "name"_a, "curve"_a, "values"_a.noconvert(), "Curve number `curve`, in place.");
}
