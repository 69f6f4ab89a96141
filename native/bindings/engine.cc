// Files and engines, as Python sees them.
#include "engine/engine.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cerrno>
#include <system_error>
#include <type_traits>

#include "bindings/module.h"
#include "engine/operators/conv.h"
#include "engine/operators/operator.h"
#include "engine/reader.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace ftbnn;

void require(bool holds, const char* what) {
  if (!holds) throw nb::value_error(what);
}

template <typename T>
nb::object copy_of(const T* data, std::uint64_t count) {
  if (data == nullptr) return nb::none();
  return nb::bytes(data, static_cast<std::size_t>(count) * sizeof(T));
}

// Files are read with the GIL released; what the operating system refuses is an OSError with its number.
Model open_model(const std::string& path, const Limits& limits) {
  try {
    const nb::gil_scoped_release release;
    return read_model(path, limits);
  } catch (const std::system_error& error) {
    errno = error.code().value();
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, path.c_str());
    throw nb::python_error();
  }
}

const char* act_name(const Tail& tail) {
  constexpr const char* acts[] = {"none", "relu", "prelu", "fprelu", "clamp"};
  constexpr const char* curves[] = {"", "hardswish", "hardsigmoid", "sigmoid", "silu", "tanh"};
  return tail.curve == Curve::none ? acts[static_cast<int>(tail.act)] : curves[static_cast<int>(tail.curve)];
}

// What a file holds, to train on from it and to give the same network to other engines.
nb::tuple read_graph(const std::string& path) {
  const Model model = open_model(path, {});
  nb::list values, operators;
  for (const Shape& shape : model.values) values.append(nb::make_tuple(shape.c, shape.h, shape.w));
  for (const Operator& op : model.operators) {
    const Window& w = op.window;
    const Shape &in = model.values[static_cast<std::size_t>(op.inputs[0])],
                &out = model.values[static_cast<std::size_t>(op.output)];
    const auto channels = static_cast<std::uint64_t>(out.c);
    nb::dict fields;
    fields["kind"] = op.kind->number;
    fields["path"] = op.path;
    fields["inputs"] = nb::cast(op.inputs);
    fields["output"] = op.output;
    fields["window"] = nb::make_tuple(w.kh, w.kw, w.sh, w.sw, w.ph, w.pw);
    fields["groups"] = op.groups;
    fields["zero_one"] = op.zero_one;
    fields["whole"] = op.whole_window;
    fields["is_sum"] = op.is_sum;
    fields["weights"] = copy_of(reinterpret_cast<const std::uint8_t*>(op.weights), op.weight_bytes);
    fields["positive"] = copy_of(op.bits, op.weight_bytes);
    fields["bits"] = op.weight_bits;
    fields["integers"] = copy_of(static_cast<const std::uint8_t*>(op.integers), op.weight_bytes);
    fields["unit"] = copy_of(op.unit, channels);
    fields["threshold"] = copy_of(op.threshold, static_cast<std::uint64_t>(in.c));
    fields["count"] = op.step_count;
    fields["rows"] = op.step_rows;
    fields["thresholds"] =
        copy_of(op.steps, static_cast<std::uint64_t>(op.step_count) * static_cast<std::uint64_t>(op.step_rows));
    fields["source"] = copy_of(op.map, channels);
    fields["scale"] = copy_of(op.tail.scale, channels);
    fields["shift"] = copy_of(op.tail.shift, channels);
    fields["left"] = copy_of(op.tail.left, channels);
    fields["right"] = copy_of(op.tail.right, channels);
    fields["after"] = copy_of(op.tail.after, channels);
    fields["first_left"] = copy_of(op.tail.first_left, channels);
    fields["first_right"] = copy_of(op.tail.first_right, channels);
    fields["low"] = op.tail.low;
    fields["high"] = op.tail.high;
    fields["shortcut"] = op.tail.shortcut;
    fields["act"] = act_name(op.tail);
    operators.append(fields);
  }
  return nb::make_tuple(values, operators);
}

template <typename Pixel>
using Images = nb::ndarray<const Pixel, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Scores = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

nb::tuple shape_tuple(const Shape& shape) { return nb::make_tuple(shape.c, shape.h, shape.w); }

// A bytes object does not change, so it is read with the GIL released too.
void parse_engine(Engine* self, const nb::bytes& data, int threads, std::uint64_t max_bytes, std::uint64_t max_macs,
                  const std::string& isa, bool any_order) {
  const void* bytes = data.data();
  const std::size_t size = data.size();
  const Limits limits{max_bytes, max_macs};
  const nb::gil_scoped_release release;
  new (self) Engine(parse(bytes, size, limits), threads, limits, isa, any_order);
}

void open_engine(Engine* self, const std::string& path, int threads, std::uint64_t max_bytes, std::uint64_t max_macs,
                 const std::string& isa, bool any_order) {
  const Limits limits{max_bytes, max_macs};
  Model model = open_model(path, limits);
  const nb::gil_scoped_release release;
  new (self) Engine(std::move(model), threads, limits, isa, any_order);
}

// Ctrl-C ends a run: Python's handlers are asked on the thread that called.
void ask_python() {
  const nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

template <typename Pixel>
void run_engine(const Engine& engine, const Images<Pixel>& images, const Scores& scores) {
  const Shape& in = engine.model().input();
  const bool planar = std::is_same_v<Pixel, float>;
  const auto extent = [&](int k) { return static_cast<int>(images.shape(k)); };
  require(planar ? extent(1) == in.c && extent(2) == in.h && extent(3) == in.w
                 : extent(1) == in.h && extent(2) == in.w && extent(3) == in.c,
          "the images have another shape than the network's input");
  require(images.shape(0) >= 1 && scores.shape(0) == images.shape(0) &&
              scores.shape(1) == engine.model().output().elements(),
          "scores must be [images][outputs]");
  const nb::gil_scoped_release release;
  engine.run(images.data(), extent(0), scores.data(), ask_python);
}

template <typename Pixel>
std::vector<double> profile_engine(const Engine& engine, const Images<Pixel>& images, int rounds) {
  const Shape& in = engine.model().input();
  require(images.shape(0) == 1 && images.size() == in.elements() && rounds >= 1,
          "profile takes one image of the input's shape");
  const nb::gil_scoped_release release;
  return engine.profile(images.data(), rounds, ask_python);
}

// (path, kind, multiply-accumulates, output shape, bits per weight, bytes of weights in the file) of each operator.
nb::list list_operators(const Engine& engine) {
  nb::list rows;
  for (std::size_t k = 0; k < engine.model().operators.size(); ++k) {
    const Operator& op = engine.model().operators[k];
    const Shape& out = engine.model().values[static_cast<std::size_t>(op.output)];
    rows.append(nb::make_tuple(op.path, op.kind->name, engine.plan().macs(k), shape_tuple(out), op.weight_bits,
                               op.weight_bytes));
  }
  return rows;
}

}  // namespace

void bind_engine(nb::module_& m) {
  const nb::object user_error = nb::module_::import_("ftbnn.errors").attr("UserError");
  nb::exception<FormatError>(m, "FormatError", user_error.ptr());
  m.def("read_graph", &read_graph, "path"_a,
        nb::sig("def read_graph(path: str) -> tuple[list[tuple[int, int, int]], list[dict[str, object]]]"),
        "The values and operators of a file, as docs/format.md names them; arrays are bytes.");
  const Limits limits;
  nb::class_<Engine>(m, "Engine", "A loaded .ftbnn file.")
      .def("__init__", &open_engine, "path"_a, "threads"_a, nb::kw_only(), "max_bytes"_a = limits.max_bytes,
           "max_macs"_a = limits.max_macs, "isa"_a = "", "any_order"_a = false)
      .def("__init__", &parse_engine, "data"_a, "threads"_a, nb::kw_only(), "max_bytes"_a = limits.max_bytes,
           "max_macs"_a = limits.max_macs, "isa"_a = "", "any_order"_a = false)
      .def("run_f32", &run_engine<float>, "images"_a, "scores"_a, "Normalised (N, C, H, W) images to (N, outputs).")
      .def("run_u8", &run_engine<std::uint8_t>, "images"_a, "scores"_a, "8-bit (N, H, W, C) images to (N, outputs).")
      .def("profile_f32", &profile_engine<float>, "image"_a, "rounds"_a,
           "Seconds of the input's conversion and of each operator, the fastest of `rounds`.")
      .def("profile_u8", &profile_engine<std::uint8_t>, "image"_a, "rounds"_a, "The same for an 8-bit image.")
      .def("operators", &list_operators,
           nb::sig("def operators(self) -> list[tuple[str, str, int, tuple[int, int, int], int, int]]"),
           "(path, kind, MACs, output shape, bits per weight, bytes of weights) of each operator.")
      .def_prop_ro("name", [](const Engine& e) { return e.model().name; })
      .def_prop_ro(
          "input_shape", [](const Engine& e) { return shape_tuple(e.model().input()); },
          nb::sig("def input_shape(self) -> tuple[int, int, int]"))
      .def_prop_ro(
          "output_shape", [](const Engine& e) { return shape_tuple(e.model().output()); },
          nb::sig("def output_shape(self) -> tuple[int, int, int]"))
      .def_prop_ro("mean", [](const Engine& e) { return e.model().mean; })
      .def_prop_ro("std", [](const Engine& e) { return e.model().std; })
      .def_prop_ro("resize", [](const Engine& e) { return e.model().resize; })
      .def_prop_ro("class_names", [](const Engine& e) { return e.model().class_names; })
      .def_prop_ro("isa", &Engine::isa)
      .def_prop_ro("threads", &Engine::threads);
}
