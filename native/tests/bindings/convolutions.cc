// Whole convolutions by any kernel: laid out, arranged and run as an engine would, in memory with guards behind it.
#include <algorithm>

#include "kernels/bconv/bconv.h"
#include "kernels/bconv/tiles_layout.h"
#include "kernels/conv/conv.h"
#include "kernels/stem/stem.h"
#include "tests/bindings/ends.h"
#include "tests/bindings/module.h"
#include "tests/reference.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace ftbnn;

using Pair = std::array<int, 2>;  // height before width

// Memory that a kernel is told to be `size` bytes, with a guard behind it.
class Guarded {
 public:
  explicit Guarded(std::size_t size) : size_(size), bytes_(size + GUARD) {
    std::fill_n(bytes_.data(), size + GUARD, MARK);
  }
  std::uint8_t* data() { return bytes_.data(); }
  void check() const {
    const std::uint8_t* guard = bytes_.data() + size_;
    require(std::all_of(guard, guard + GUARD, [](std::uint8_t byte) { return byte == MARK; }), "written past the end");
  }

 private:
  static constexpr std::size_t GUARD = 256;
  static constexpr std::uint8_t MARK = 0xa5;
  std::size_t size_;
  AlignedArray<std::uint8_t> bytes_;
};

ConvShape shape_of(int h, int w, int in, int out, int groups, Pair kernel, Pair stride, Pair padding, Pair size) {
  require(groups >= 1 && groups <= in && groups <= out, "groups must be 1 to the number of channels");
  require(kernel[0] >= 1 && kernel[1] >= 1 && stride[0] >= 1 && stride[1] >= 1 && padding[0] >= 0 && padding[1] >= 0 &&
              size[0] >= 1 && size[1] >= 1,
          "sizes must be 1 or more");
  return {in, out, groups, h, w, size[0], size[1], kernel[0], kernel[1], stride[0], stride[1], padding[0], padding[1]};
}

// At most: what a kernel says before it is made must hold.
void check_sizes(const Sizes& said, std::size_t arranged, std::size_t scratch) {
  require(arranged <= said.arranged && scratch <= said.scratch, "takes more memory than it said");
}

void conv(const std::string& name, const Packed<float, -1, -1, -1>& image, const Packed<float, -1>& weights,
          int channels, int groups, Pair kernel, Pair stride, Pair padding, Pair size, Pair rows, const nb::dict& end) {
  const ConvShape s =
      shape_of(extent(image, 0), extent(image, 1), extent(image, 2), channels, groups, kernel, stride, padding, size);
  require(weights.shape(0) * s.positions() == s.macs(), "weights must be [out][in of a group][kh][kw]");
  const ConvKernels& kernels = name == "reference" ? reference_conv : kernels_named(conv_table(), name);
  require(kernels.suits(s), "this kernel does not do such a convolution");
  const std::unique_ptr<Conv> made = kernels.make(s, weights.data());
  // The image in the middle of its border.
  const auto columns = static_cast<std::size_t>(s.columns() * s.in);
  std::vector<float> bordered(static_cast<std::size_t>(s.rows()) * columns);
  float* origin = bordered.data() + static_cast<std::size_t>(s.ph) * columns + static_cast<std::size_t>(s.pw * s.in);
  for (int y = 0; y < s.h; ++y) {
    std::copy_n(image.data() + static_cast<std::size_t>(y) * s.w * s.in, s.w * s.in,
                origin + static_cast<std::size_t>(y) * columns);
  }
  const RealImage in{origin, columns, true};
  Guarded arranged(made->arranged_bytes()), scratch(made->scratch_bytes());
  if (name != "reference") check_sizes(kernels.sizes(s), made->arranged_bytes(), made->scratch_bytes());
  if (made->arranges()) made->arrange(rows[0], rows[1], in, arranged.data());
  const Ends ends(end, s.outs(), rows[1] - rows[0], s.ow);
  for (int panel = 0; panel < static_cast<int>(ends.panels().size()); ++panel) {
    made->run({in, arranged.data(), panel, 1, rows[0], rows[1], scratch.data(), ends.at(panel)});
  }
  arranged.check();
  scratch.check();
}

using Runs = std::vector<std::vector<Pair>>;

void bconv(const std::string& name, const Packed<std::uint64_t, -1, -1, -1>& codes, int bits, const Runs& runs,
           int inputs, const Packed<std::uint64_t, -1>& weights, int channels, int groups, Pair kernel, Pair stride,
           Pair padding, Pair size, bool zero_one, bool has_border, Pair rows, const nb::dict& end) {
  const BConvShape s{
      shape_of(extent(codes, 0), extent(codes, 1), inputs, channels, groups, kernel, stride, padding, size), zero_one};
  require(weights.shape(0) == weight_words(s), "weights must be [out][kh][kw][words of a group's inputs]");
  CodeLayout layout{codes.shape(2), bits, {}, has_border};
  require(bits >= 1 && bits <= static_cast<int>(64 * layout.words), "bits must fit the words");
  require(runs.size() == static_cast<std::size_t>(groups), "runs must be those of each group");
  for (int g = 0; g < groups; ++g) {
    int total = 0;
    layout.groups.emplace_back();
    for (const Pair& run : runs[static_cast<std::size_t>(g)]) {
      require(run[0] >= 0 && run[1] >= 1 && run[0] + run[1] <= bits, "a run is outside");
      layout.groups.back().push_back({run[0], run[1]});
      total += run[1];
    }
    require(total == s.ins().size(g), "runs must have a group's channels");
  }
  const BConvKernels& kernels = name == "reference" ? reference_bconv : kernels_named(bconv_table(), name);
  require(kernels.can(s), "this kernel does not do such a convolution");
  const std::unique_ptr<BConv> made = kernels.make(s, layout, weights.data());
  const std::size_t row = static_cast<std::size_t>(s.columns()) * layout.words;
  std::vector<std::uint64_t> bordered(static_cast<std::size_t>(s.rows()) * row);
  std::uint64_t* origin =
      bordered.data() + static_cast<std::size_t>(s.ph) * row + static_cast<std::size_t>(s.pw) * layout.words;
  for (int y = 0; y < s.h; ++y) {
    std::copy_n(codes.data() + static_cast<std::size_t>(y) * s.w * layout.words, s.w * layout.words,
                origin + static_cast<std::size_t>(y) * row);
  }
  const Codes in = has_border ? Codes{origin, row} : Codes{codes.data(), static_cast<std::size_t>(s.w) * layout.words};
  Guarded arranged(made->arranged_bytes()), scratch(made->scratch_bytes());
  if (name != "reference") check_sizes(kernels.sizes(s), made->arranged_bytes(), made->scratch_bytes());
  if (made->arranges()) made->arrange(rows[0], rows[1], in, arranged.data(), scratch.data());
  const Ends ends(end, kernels.panels(s), rows[1] - rows[0], s.ow);
  const int panels = static_cast<int>(ends.panels().size());
  for (int panel = 0; panel < panels; panel += made->panels_at_once()) {
    BConvCall call{};
    call.panels = std::min(made->panels_at_once(), panels - panel);
    call.codes = in;
    call.arranged = arranged.data();
    call.images = 1;
    call.panel = panel;
    call.first = rows[0];
    call.last = rows[1];
    call.scratch = scratch.data();
    call.end = ends.at(panel);
    made->run(call);
  }
  arranged.check();
  scratch.check();
}

// Of a binary convolution with stride 1 that keeps its size.
BConvShape same_size(int in, int out, int groups, int kernel, int size) {
  const Pair square{size, size}, both{kernel, kernel}, half{kernel / 2, kernel / 2};
  return {shape_of(size, size, in, out, groups, both, {1, 1}, half, square), false};
}

bool suits(const std::string& name, int in, int out, int groups, int kernel, int size) {
  return kernels_named(bconv_table(), name).suits(same_size(in, out, groups, kernel, size));
}

std::size_t tile_steps(int in, int out, int kernel) {
  return ByteLayout(same_size(in, out, 1, kernel, 14), in).step_count();
}

// False if the stem cannot be done so.
bool stem(const std::string& name, const Packed<std::uint8_t, -1, -1, -1>& image, const Packed<float, -1>& weights,
          int channels, Pair kernel, Pair stride, Pair padding, Pair size, const Packed<float, 2, -1>& pixel, Pair rows,
          const nb::dict& end, const std::optional<Packed<std::int16_t, -1>>& integers,
          const std::optional<Packed<float, -1>>& unit, int bits) {
  const ConvShape conv =
      shape_of(extent(image, 0), extent(image, 1), extent(image, 2), channels, 1, kernel, stride, padding, size);
  require(weights.shape(0) * conv.positions() == conv.macs() && extent(pixel, 1) == conv.in, "sizes do not fit");
  const Ends ends(end, conv.outs(), rows[1] - rows[0], conv.ow);
  const auto numbers = [&](const char* what) {
    return end.contains(what) ? nb::cast<Packed<float, -1>>(end[what], false).data() : nullptr;
  };
  std::vector<std::int8_t> bytes;
  Rounded rounded{};
  if (integers && unit) {
    require(integers->shape(0) == weights.shape(0) && extent(*unit, 0) == channels, "sizes do not fit");
    if (bits == 8) bytes.assign(integers->data(), integers->data() + integers->shape(0));
    rounded = {bits, bits == 8 ? static_cast<const void*>(bytes.data()) : integers->data(), unit->data()};
  }
  const StemShape s{conv,         weights.data(),        rounded, numbers("scale"), numbers("shift"),
                    pixel.data(), pixel.data() + conv.in};
  const StemKernels reference = integers ? reference_dots() : reference_slices();
  const StemKernels kernels = name == "reference" ? reference : kernels_named(stem_table(), name);
  if (!kernels.suits(s)) return false;
  const std::unique_ptr<Stem> made = kernels.make(s);
  if (made == nullptr) return false;
  AlignedArray<std::uint8_t> pixels(made->pixel_bytes());
  Guarded scratch(made->scratch_bytes());
  check_sizes(kernels.sizes(s), made->pixel_bytes(), made->scratch_bytes());
  for (int row = conv.h; row-- > 0;) made->load(row, image.data(), pixels.data());
  made->run({pixels.data(), rows[0], rows[1], scratch.data(), ends.at(0)});
  scratch.check();
  return true;
}

}  // namespace

void bind_convolutions(nb::module_& m) {
  m.def("conv", &conv, "name"_a, "image"_a.noconvert(), "weights"_a.noconvert(), nb::kw_only(), "channels"_a,
        "groups"_a, "kernel"_a, "stride"_a, "padding"_a, "size"_a, "rows"_a, "end"_a,
        "Real convolution of output rows [first, last) by a kernel, or by the reference.");
  m.def("joins_groups", [](const std::string& name) { return kernels_named(bconv_table(), name).joins_groups; });
  m.def("suits", &suits, "name"_a, "inputs"_a, "outputs"_a, "groups"_a, "kernel"_a, "size"_a);
  m.def("tile_steps", &tile_steps, "inputs"_a, "outputs"_a, "kernel"_a, "Rows of 64 bytes that a window takes.");
  m.def("bconv", &bconv, "name"_a, "codes"_a.noconvert(), "bits"_a, "runs"_a, "inputs"_a, "weights"_a.noconvert(),
        nb::kw_only(), "channels"_a, "groups"_a, "kernel"_a, "stride"_a, "padding"_a, "size"_a, "zero_one"_a,
        "has_border"_a, "rows"_a, "end"_a,
        "Binary convolution likewise; runs: of each group the (first bit, count) that hold its channels.");
  m.def("stem", &stem, "name"_a, "image"_a.noconvert(), "weights"_a.noconvert(), nb::kw_only(), "channels"_a,
        "kernel"_a, "stride"_a, "padding"_a, "size"_a, "pixel"_a.noconvert(), "rows"_a, "end"_a,
        "integers"_a.noconvert() = nb::none(), "unit"_a.noconvert() = nb::none(), "bits"_a = 0,
        "Convolution of an 8-bit image in integers; pixel: scales and shifts of its channels; integers and unit: of "
        "rounded weights.");
}
