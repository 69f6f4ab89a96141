// The binding to Python; bindings_rows.cc has the small kernels', training/ its own.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <utility>

#include "base/cpu.h"
#include "bench/roofs.h"
#include "bindings_arrays.h"
#include "bindings_rows.h"
#include "bindings_tiles.h"
#include "engine/engine.h"
#include "engine/reader.h"
#include "kernels/table.h"

namespace nb = nanobind;
using namespace nb::literals;

void bind_training(nb::module_ m);   // training/bindings.cc
void bind_conv_grad(nb::module_ m);  // training/conv_grad_bindings.cc
const ftbnn::Kernels& ftbnn::kernels_named(const std::string& name) {
  if (name == "reference") return ftbnn::reference_kernels();
  for (const ftbnn::Isa isa : ftbnn::cpu().isas) {
    if (name == ftbnn::isa_name(isa)) return ftbnn::kernels_for(isa);
  }
  if (const ftbnn::Kernels* kernels = tile_kernels_named(name)) return *kernels;
  throw nb::value_error("isa must be \"reference\" or one of isas()");
}

static constexpr const char* act_names[] = {"none", "relu", "prelu", "fprelu"};

ftbnn::Act ftbnn::act_named(const std::string& name) {
  const auto found = std::find(std::begin(act_names), std::end(act_names), name);
  if (found == std::end(act_names)) throw nb::value_error("act must be none, relu, prelu or fprelu");
  return static_cast<Act>(found - std::begin(act_names));
}

namespace {

using ftbnn::act_named;
using ftbnn::kernels_named;
using ftbnn::PANEL;

std::vector<std::string> isa_names() {
  std::vector<std::string> names;
  for (const ftbnn::Isa isa : ftbnn::cpu().isas) names.emplace_back(ftbnn::isa_name(isa));
  return names;
}

template <typename T>
using Rows = std::optional<Strided<T, -1, -1>>;

// One row for each output position, of at least `count` values side by side.
template <typename T>
void take(const Rows<T>& rows, int width, int count, const char* what, T*& data, std::size_t& stride) {
  if (!rows) return;
  require(static_cast<int>(rows->shape(0)) == width && static_cast<int>(rows->shape(1)) >= count &&
              rows->stride(0) >= count && rows->stride(1) == 1,
          what);
  data = rows->data();
  stride = rows->stride(0);
}

ftbnn::Epilogue epilogue(int width, int channels, const std::string& act, const Packed<float, 4, PANEL>& scales,
                         const Rows<const float>& shortcut, const Rows<float>& out, const Rows<std::uint32_t>& codes) {
  ftbnn::Epilogue end = {};
  end.scale = scales.data();
  end.shift = end.scale + PANEL;
  end.left = end.shift + PANEL;
  end.right = end.left + PANEL;
  end.act = act_named(act);
  take(shortcut, width, channels, "shortcut must be [width][>= channels]", end.shortcut, end.shortcut_stride);
  take(out, width, channels, "out must be [width][>= channels]", end.out, end.out_stride);
  take(codes, width, 1, "codes must be [width][>= 1]", end.codes, end.codes_stride);
  return end;
}

// The fields that both convolutions have; the image must hold every tap of every output column.
template <typename Row, typename T>
Row row_of(const Strided<const T, -1, -1, -1>& image, const Packed<T, -1, -1, -1, PANEL>& weights, int stride,
           int width, int channels) {
  Row row = {};
  row.kh = static_cast<int>(weights.shape(0));
  row.kw = static_cast<int>(weights.shape(1));
  const auto values = static_cast<std::int64_t>(weights.shape(2));
  require(row.kh >= 1 && row.kw >= 1 && values >= 1, "weights must be [kh][kw][values of a position][32]");
  require(reinterpret_cast<std::uintptr_t>(weights.data()) % 64 == 0, "weights must start on a 64-byte boundary");
  require(stride >= 1 && width >= 1, "stride and width must be 1 or more");
  require(channels >= 1 && channels <= PANEL, "channels must be 1 to 32");
  require(static_cast<int>(image.shape(0)) >= row.kh &&
              static_cast<std::int64_t>(image.shape(1)) >= std::int64_t{width - 1} * stride + row.kw &&
              static_cast<std::int64_t>(image.shape(2)) == values,
          "image must be [>= kh][>= (width - 1) * stride + kw][values of a position]");
  require(image.stride(0) >= 0 && image.stride(1) == values && image.stride(2) == 1,
          "positions of the image must lie side by side");
  row.in = image.data();
  row.row_stride = image.stride(0);
  row.weights = weights.data();
  row.stride = stride;
  row.width = width;
  row.channels = channels;
  return row;
}

void conv_row(const std::string& isa, const Strided<const float, -1, -1, -1>& image,
              const Packed<float, -1, -1, -1, PANEL>& weights, int stride, int width, int channels,
              const std::string& act, const Packed<float, 4, PANEL>& scales, const Rows<const float>& shortcut,
              const Rows<float>& out, const Rows<std::uint32_t>& codes) {
  auto row = row_of<ftbnn::ConvRow, float>(image, weights, stride, width, channels);
  row.channels_in = static_cast<int>(weights.shape(2));
  row.end = epilogue(width, channels, act, scales, shortcut, out, codes);
  kernels_named(isa).conv_row(row);
}

void bconv_row(const std::string& isa, const Strided<const std::uint64_t, -1, -1, -1>& image,
               const Packed<std::uint64_t, -1, -1, -1, PANEL>& weights, int stride, int width, int channels,
               const std::string& act, const Packed<float, 4, PANEL>& scales, bool zero_one,
               const Packed<std::int32_t, -1, PANEL>& base, const Packed<std::uint8_t, -1>& border,
               const Packed<std::int32_t, -1>& ones, const Rows<const float>& shortcut, const Rows<float>& out,
               const Rows<std::uint32_t>& codes) {
  auto row = row_of<ftbnn::BConvRow, std::uint64_t>(image, weights, stride, width, channels);
  row.words = static_cast<int>(weights.shape(2));
  row.zero_one = zero_one;
  require(static_cast<int>(border.shape(0)) == width, "border must be [width]");
  require(static_cast<int>(ones.shape(0)) == width, "ones must be [width]");
  require(*std::max_element(border.data(), border.data() + width) < base.shape(0), "border names a class past base");
  row.base = base.data();
  row.border = border.data();
  row.ones = ones.data();
  row.end = epilogue(width, channels, act, scales, shortcut, out, codes);
  kernels_named(isa).bconv_row(row);
}

void bind_kernels(nb::module_ m) {
  m.doc() = "One row of each kernel, for tests; native/kernels/conv_row.h and rows.h are the contracts.";
  m.def("conv_row", &conv_row, "isa"_a, "image"_a.noconvert(), "weights"_a.noconvert(), nb::kw_only(), "stride"_a,
        "width"_a, "channels"_a, "act"_a, "scales"_a.noconvert(), "shortcut"_a.noconvert() = nb::none(),
        "out"_a.noconvert() = nb::none(), "codes"_a.noconvert() = nb::none(),
        "Real convolution of one output row; the rows of scales are scale, shift, left and right.");
  m.def("bconv_row", &bconv_row, "isa"_a, "image"_a.noconvert(), "weights"_a.noconvert(), nb::kw_only(), "stride"_a,
        "width"_a, "channels"_a, "act"_a, "scales"_a.noconvert(), "zero_one"_a, "base"_a.noconvert(),
        "border"_a.noconvert(), "ones"_a.noconvert(), "shortcut"_a.noconvert() = nb::none(),
        "out"_a.noconvert() = nb::none(), "codes"_a.noconvert() = nb::none(),
        "Binary convolution of one output row; the rows of scales are scale, shift, left and right.");
  bind_rows(m);
  bind_tiles(m);
}

template <typename T>
nb::object copy_of(const T* data, std::size_t count) {
  if (data == nullptr) return nb::none();
  return nb::bytes(data, count * sizeof(T));
}

// Files are read with the GIL released; what the operating system refuses is an OSError with its number.
ftbnn::Model open_model(const std::string& path) {
  try {
    const nb::gil_scoped_release release;
    return ftbnn::read_model(path);
  } catch (const std::system_error& error) {
    errno = error.code().value();
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, path.c_str());
    throw nb::python_error();
  }
}

// What a file holds, to train on from it and to give the same network to other engines.
nb::tuple read_graph(const std::string& path) {
  const ftbnn::Model model = open_model(path);
  nb::list values, operators;
  for (const ftbnn::Shape& shape : model.values) values.append(nb::make_tuple(shape.c, shape.h, shape.w));
  for (const ftbnn::Operator& op : model.operators) {
    const ftbnn::Window& w = op.window;
    const ftbnn::Shape &in = model.values[static_cast<std::size_t>(op.inputs[0])],
                       &out = model.values[static_cast<std::size_t>(op.output)];
    const ftbnn::Groups ins{in.c, op.groups}, outs{out.c, op.groups};
    std::size_t weights = 0;
    for (int g = 0; g < op.groups; ++g)
      weights += static_cast<std::size_t>(ins.size(g)) * static_cast<std::size_t>(outs.size(g) * w.kh * w.kw);
    const auto channels = static_cast<std::size_t>(out.c);
    nb::dict fields;
    fields["kind"] = static_cast<int>(op.kind);
    fields["path"] = op.path;
    fields["inputs"] = nb::cast(op.inputs);
    fields["output"] = op.output;
    fields["window"] = nb::make_tuple(w.kh, w.kw, w.sh, w.sw, w.ph, w.pw);
    fields["groups"] = op.groups;
    fields["zero_one"] = op.zero_one;
    fields["whole"] = op.whole_window;
    fields["weights"] = copy_of(op.weights, weights);
    fields["bits"] = copy_of(op.bits, op.bits_bytes);
    fields["source"] = copy_of(op.map, channels);
    fields["scale"] = copy_of(op.tail.scale, channels);
    fields["shift"] = copy_of(op.tail.shift, channels);
    fields["left"] = copy_of(op.tail.left, channels);
    fields["right"] = copy_of(op.tail.right, channels);
    fields["shortcut"] = op.tail.shortcut;
    fields["act"] = act_names[static_cast<std::size_t>(op.tail.act)];
    operators.append(fields);
  }
  return nb::make_tuple(values, operators);
}

void bind_bench(nb::module_ m) {
  m.doc() = "What benchmarks need of the CPU.";
  m.def("hides_tile_palette", &ftbnn::hides_tile_palette, "True where libraries that use AMX end in SIGILL.");
  m.def(
      "roof",
      [](const std::string& isa, bool binary) -> nb::object {
        for (const ftbnn::Roof& roof : ftbnn::roofs()) {
          if (roof.binary != binary || isa != ftbnn::isa_name(roof.isa)) continue;
          double rate = 0;
          {
            const nb::gil_scoped_release release;
            rate = roof.gmacs();
          }
          return nb::make_tuple(roof.name, rate);
        }
        return nb::none();
      },
      "isa"_a, "binary"_a, nb::sig("def roof(isa: str, binary: bool) -> tuple[str, float] | None"),
      "(instructions, GMAC/s of one thread right now) of the loop that bounds this ISA's kernels; None if there is "
      "none.");
}

template <typename Pixel>
using Images = nb::ndarray<const Pixel, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Scores = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

nb::tuple shape_tuple(const ftbnn::Shape& shape) { return nb::make_tuple(shape.c, shape.h, shape.w); }

// A bytes object does not change, so it is read with the GIL released too.
void parse_engine(ftbnn::Engine* self, const nb::bytes& data, int threads) {
  const void* bytes = data.data();
  const std::size_t size = data.size();
  const nb::gil_scoped_release release;
  new (self) ftbnn::Engine(ftbnn::parse(bytes, size), threads);
}

void open_engine(ftbnn::Engine* self, const std::string& path, int threads) {
  ftbnn::Model model = open_model(path);
  const nb::gil_scoped_release release;
  new (self) ftbnn::Engine(std::move(model), threads);
}

template <typename Pixel>
void run_engine(const ftbnn::Engine& engine, const Images<Pixel>& images, const Scores& scores) {
  const ftbnn::Shape& in = engine.model().input();
  const bool planar = std::is_same_v<Pixel, float>;
  const auto extent = [&](int k) { return static_cast<int>(images.shape(k)); };
  require(planar ? extent(1) == in.c && extent(2) == in.h && extent(3) == in.w
                 : extent(1) == in.h && extent(2) == in.w && extent(3) == in.c,
          "the images have another shape than the network's input");
  require(images.shape(0) >= 1 && scores.shape(0) == images.shape(0) &&
              scores.shape(1) == engine.model().output().elements(),
          "scores must be [images][outputs]");
  const nb::gil_scoped_release release;
  engine.run(images.data(), extent(0), scores.data());
}

template <typename Pixel>
std::vector<double> profile_engine(const ftbnn::Engine& engine, const Images<Pixel>& images, int rounds) {
  const ftbnn::Shape& in = engine.model().input();
  require(images.shape(0) == 1 && images.size() == in.elements() && rounds >= 1,
          "profile takes one image of the input's shape");
  const nb::gil_scoped_release release;
  return engine.profile(images.data(), rounds);
}

// (path, kind, multiply-accumulates, output shape, bits per weight, bytes of weights in the file) of each operator.
nb::list list_operators(const ftbnn::Engine& engine) {
  nb::list rows;
  for (std::size_t k = 0; k < engine.model().operators.size(); ++k) {
    const ftbnn::Operator& op = engine.model().operators[k];
    const ftbnn::Shape& out = engine.model().values[static_cast<std::size_t>(op.output)];
    std::uint64_t real_bytes = 0;
    if (op.weights != nullptr)
      real_bytes = engine.plan().operators[k].macs / (out.elements() / static_cast<std::size_t>(out.c)) * sizeof(float);
    const int bits = op.bits != nullptr ? 1 : op.weights != nullptr ? 32 : 0;
    rows.append(nb::make_tuple(op.path, ftbnn::kind_name(op.kind), engine.plan().operators[k].macs, shape_tuple(out),
                               bits, op.bits != nullptr ? op.bits_bytes : real_bytes));
  }
  return rows;
}

// What the core calls an invalid argument (FTBNN_ISA, threads, images of NaN) is a user's mistake.
void translate_mistake(const std::exception_ptr& thrown, void* user_error) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::invalid_argument& mistake) {
    PyErr_SetString(static_cast<PyObject*>(user_error), mistake.what());
  }
}

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "The native core: what the CPU can do.";
  nb::set_leak_warnings(false);  // of what a script still holds at its end: a loss, and with it the blocks behind it
  m.def("cpu_name", [] { return ftbnn::cpu().name; }, "Brand string of the CPU.");
  m.def(
      "cpu_features", [] { return ftbnn::cpu().features; },
      "Instruction sets the kernels care about that the CPU and the operating system both offer.");
  m.def("isas", &isa_names, "ISAs whose kernels may run here, best first.");
  m.def(
      "isa_in_use", [] { return std::string(ftbnn::isa_name(ftbnn::isa_in_use())); },
      "The ISA the kernels use: the best one, or the one FTBNN_ISA names. Raises UserError if it cannot be used.");
  bind_kernels(m.def_submodule("kernels"));
  nb::module_ training = m.def_submodule("training");
  bind_training(training);
  bind_conv_grad(training);
  bind_bench(m.def_submodule("bench"));
  const nb::object user_error = nb::module_::import_("ftbnn.errors").attr("UserError");
  nb::exception<ftbnn::FormatError>(m, "FormatError", user_error.ptr());
  nb::register_exception_translator(&translate_mistake, user_error.inc_ref().ptr());
  m.def("read_graph", &read_graph, "path"_a,
        nb::sig("def read_graph(path: str) -> tuple[list[tuple[int, int, int]], list[dict[str, object]]]"),
        "The values and operators of a file, as docs/format.md names them; arrays are bytes.");
  nb::class_<ftbnn::Engine>(m, "Engine", "A loaded .ftbnn file.")
      .def("__init__", &open_engine, "path"_a, "threads"_a)
      .def("__init__", &parse_engine, "data"_a, "threads"_a)
      .def("run_f32", &run_engine<float>, "images"_a, "scores"_a, "Normalised (N, C, H, W) images to (N, outputs).")
      .def("run_u8", &run_engine<std::uint8_t>, "images"_a, "scores"_a, "8-bit (N, H, W, C) images to (N, outputs).")
      .def("profile_f32", &profile_engine<float>, "image"_a, "rounds"_a,
           "Seconds of the input's conversion and of each operator, the fastest of `rounds`.")
      .def("profile_u8", &profile_engine<std::uint8_t>, "image"_a, "rounds"_a, "The same for an 8-bit image.")
      .def("operators", &list_operators,
           nb::sig("def operators(self) -> list[tuple[str, str, int, tuple[int, int, int], int, int]]"),
           "(path, kind, MACs, output shape, bits per weight, bytes of weights) of each operator.")
      .def_prop_ro("name", [](const ftbnn::Engine& e) { return e.model().name; })
      .def_prop_ro(
          "input_shape", [](const ftbnn::Engine& e) { return shape_tuple(e.model().input()); },
          nb::sig("def input_shape(self) -> tuple[int, int, int]"))
      .def_prop_ro(
          "output_shape", [](const ftbnn::Engine& e) { return shape_tuple(e.model().output()); },
          nb::sig("def output_shape(self) -> tuple[int, int, int]"))
      .def_prop_ro("mean", [](const ftbnn::Engine& e) { return e.model().mean; })
      .def_prop_ro("std", [](const ftbnn::Engine& e) { return e.model().std; })
      .def_prop_ro("resize", [](const ftbnn::Engine& e) { return e.model().resize; })
      .def_prop_ro("class_names", [](const ftbnn::Engine& e) { return e.model().class_names; })
      .def_prop_ro("isa", [](const ftbnn::Engine& e) { return std::string(ftbnn::isa_name(e.isa())); })
      .def_prop_ro("threads", &ftbnn::Engine::threads);
}
