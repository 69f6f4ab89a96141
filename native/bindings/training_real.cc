// Training of what is not binary, as Python sees it: operators for one shape of input, called with named arrays.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <optional>

#include "bindings/arrays.h"
#include "bindings/module.h"
#include "bindings/team.h"
#include "training/average.h"
#include "training/norm.h"
#include "training/real_conv.h"
#include "training/stairs.h"
#include "training/stem.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace ftbnn;
using namespace ftbnn::training;

using Pair = std::array<int, 2>;  // height before width
using Named = nb::typed<nb::dict, std::string, nb::typed<nb::tuple, int, int>>;

void init_real_conv(RealConv* self, int n, int h, int w, int inputs, int outputs, Pair kernel, Pair stride,
                    Pair padding, bool weight_is_last) {
  const BatchShape shape =
      batch_shape(n, h, w, inputs, outputs, kernel[0], kernel[1], stride[0], stride[1], padding[0], padding[1], 1);
  if (std::min({n, h, w, inputs, outputs, kernel[0], kernel[1], stride[0], stride[1]}) < 1 ||
      std::min(padding[0], padding[1]) < 0 || h + 2 * padding[0] < kernel[0] || w + 2 * padding[1] < kernel[1])
    throw nb::value_error("the sizes of a convolution do not fit");
  new (self) RealConv{shape, weight_is_last, usable_features()};
}

struct Sides {
  explicit Sides(const BatchShape& s)
      : in(product({s.n, s.h, s.w, s.in})),
        out(product({s.n, s.oh, s.ow, s.out})),
        weights(product({s.out, s.in, s.kh, s.kw})) {}
  std::size_t in, out, weights;
};

void run_forward(const RealConv& conv, int threads, const Named& given) {
  const Arrays arrays(given);
  const Sides sizes(conv.shape);
  const auto* x = arrays.required<const float>("x", sizes.in);
  const auto* weight = arrays.required<const float>("weight", sizes.weights);
  auto* out = arrays.required<float>("out", sizes.out);
  const nb::gil_scoped_release release;
  TeamInUse team(threads);
  forward(conv, x, weight, out, *team, [](std::size_t) {});
}

void run_backward(const RealConv& conv, int threads, const Named& given) {
  const Arrays arrays(given);
  const Sides sizes(conv.shape);
  const auto* x = arrays.required<const float>("x", sizes.in);
  const auto* grad = arrays.required<const float>("grad", sizes.out);
  auto* weight_grad = arrays.required<float>("weight_grad", sizes.weights);
  const nb::gil_scoped_release release;
  TeamInUse team(threads);
  const std::size_t row = product({conv.shape.ow, conv.shape.out});
  backward(conv, x, [&](std::size_t k) { return grad + k * row; }, weight_grad, *team);
}

PoolShape pool_shape(int h, int w, int channels, Pair kernel, Pair stride, Pair padding, Pair size, bool count_pad) {
  for (int k = 0; k < 2; ++k) {
    const int in = k == 0 ? h : w;
    if (kernel[k] < 1 || stride[k] < 1 || padding[k] < 0 || padding[k] >= kernel[k] || size[k] < 1 ||
        (size[k] - 1) * stride[k] - padding[k] >= in)
      throw nb::value_error("the sizes of a pool do not fit");
  }
  return {h,         w,         channels,  size[0],    size[1],    kernel[0],
          kernel[1], stride[0], stride[1], padding[0], padding[1], count_pad};
}

struct Average {
  int n;
  PoolShape shape;
  Features usable;
  std::size_t in() const { return product({n, shape.h, shape.w, shape.channels}); }
  std::size_t out() const { return product({n, shape.oh, shape.ow, shape.channels}); }
};

void init_average(Average* self, int n, int h, int w, int channels, Pair kernel, Pair stride, Pair padding, Pair size,
                  bool count_pad) {
  new (self) Average{n, pool_shape(h, w, channels, kernel, stride, padding, size, count_pad), usable_features()};
}

void run_average(const Average& a, int threads, const Named& given) {
  const Arrays arrays(given);
  const auto* x = arrays.required<const float>("x", a.in());
  auto* out = arrays.required<float>("out", a.out());
  const nb::gil_scoped_release release;
  TeamInUse team(threads);
  average(a.shape, a.n, x, out, a.usable, *team);
}

void run_average_backward(const Average& a, int threads, const Named& given) {
  const Arrays arrays(given);
  const auto* grad = arrays.required<const float>("grad", a.out());
  auto* x_grad = arrays.required<float>("x_grad", a.in());
  const nb::gil_scoped_release release;
  TeamInUse team(threads);
  average_backward(a.shape, a.n, grad, x_grad, a.usable, *team);
}

struct StairsOfSize {
  std::size_t size;
  int edges;
  Features usable;
};

void init_stairs(StairsOfSize* self, std::size_t size, int edges) {
  if (size < 1 || edges < 1 || edges > MOST_EDGES) throw nb::value_error("the sizes of stairs do not fit");
  new (self) StairsOfSize{size, edges, usable_features()};
}

void run_stairs(const StairsOfSize& s, int threads, const Named& given) {
  const Arrays arrays(given);
  const auto* edges = arrays.required<const float>("edges", product({s.edges}));
  const auto* heights = arrays.required<const float>("heights", product({s.edges + 1}));
  const auto* x = arrays.required<const float>("x", s.size);
  auto* out = arrays.required<float>("out", s.size);
  auto* steps = arrays.required<std::uint8_t>("steps", s.size);
  const nb::gil_scoped_release release;
  TeamInUse team(threads);
  climb({s.edges, edges, heights, nullptr}, s.size, x, out, steps, s.usable, *team);
}

void run_stairs_backward(const StairsOfSize& s, int threads, const Named& given) {
  const Arrays arrays(given);
  const auto* slopes = arrays.required<const float>("slopes", product({s.edges + 1}));
  const auto* grad = arrays.required<const float>("grad", s.size);
  const auto* steps = arrays.required<const std::uint8_t>("steps", s.size);
  auto* x_grad = arrays.required<float>("x_grad", s.size);
  auto* heights_grad = arrays.optional<float>("heights_grad", product({s.edges + 1}));
  const nb::gil_scoped_release release;
  TeamInUse team(threads);
  descend({s.edges, nullptr, nullptr, slopes}, s.size, grad, steps, x_grad, heights_grad, s.usable, *team);
}

void init_norm(Norm* self, int n, int h, int w, int channels,
               const std::optional<nb::typed<nb::dict, std::string, nb::object>>& pool, bool batch_stats, double eps,
               double momentum) {
  std::optional<PoolShape> shape;
  if (pool) {
    const auto pair = [&](const char* name) { return nb::cast<Pair>((*pool)[name]); };
    shape = pool_shape(h, w, channels, pair("kernel"), pair("stride"), pair("padding"), pair("size"), false);
    if (shape->kh * shape->kw > 256) throw nb::value_error("a pool of more than 256 taps");
  }
  new (self) Norm{n, h, w, channels, shape, batch_stats, eps, momentum, usable_features()};
}

NormTensors norm_tensors(const Norm& norm, const Arrays& arrays, bool is_forward) {
  const std::size_t channels = product({norm.channels}), ins = product({norm.n, norm.h, norm.w, norm.channels});
  const std::size_t outs = norm.pool ? product({norm.n, norm.pool->oh, norm.pool->ow, norm.channels}) : ins;
  NormTensors t{};
  t.x = arrays.required<const float>("x", ins);
  t.shortcut = arrays.optional<const float>("shortcut", ins);
  t.gamma = arrays.optional<const float>("gamma", channels);
  t.beta = arrays.optional<const float>("beta", channels);
  t.left = arrays.optional<const float>("left", channels);
  t.right = arrays.optional<const float>("right", channels);
  t.saved = arrays.required<float>("saved", 4 * channels);
  t.taps = norm.pool ? arrays.required<std::uint8_t>("taps", outs) : nullptr;
  t.out = is_forward || norm.pool ? arrays.required<float>("out", outs) : nullptr;
  if (norm.pool && (t.shortcut != nullptr || t.left != nullptr || t.right != nullptr))
    throw nb::value_error("a pool has neither a shortcut nor slopes");
  if (is_forward) {
    t.running_mean = arrays.optional<const float>("running_mean", channels);
    t.running_var = arrays.optional<const float>("running_var", channels);
    t.new_mean = arrays.optional<float>("new_mean", channels);
    t.new_var = arrays.optional<float>("new_var", channels);
    const bool has_running = t.running_mean != nullptr && t.running_var != nullptr;
    if ((t.new_mean == nullptr) != (t.new_var == nullptr) ||
        ((t.new_mean != nullptr || !norm.batch_stats) && !has_running))
      throw nb::value_error("running statistics are missing");
    return t;
  }
  t.grad = arrays.required<const float>("grad", outs);
  t.x_grad = arrays.optional<float>("x_grad", ins);
  t.shortcut_grad = arrays.optional<float>("shortcut_grad", ins);
  t.gamma_grad = arrays.optional<float>("gamma_grad", channels);
  t.beta_grad = arrays.optional<float>("beta_grad", channels);
  t.left_grad = arrays.optional<float>("left_grad", channels);
  t.right_grad = arrays.optional<float>("right_grad", channels);
  return t;
}

void run_norm(const Norm& norm, int threads, const Named& arrays) {
  const NormTensors tensors = norm_tensors(norm, Arrays(arrays), true);
  const nb::gil_scoped_release release;
  TeamInUse team(threads);
  forward(norm, tensors, *team);
}

void run_norm_backward(const Norm& norm, int threads, const Named& arrays) {
  const NormTensors tensors = norm_tensors(norm, Arrays(arrays), false);
  const nb::gil_scoped_release release;
  TeamInUse team(threads);
  backward(norm, tensors, *team);
}

void init_stem(Stem* self, const RealConv& conv, const Norm& norm) {
  const BatchShape& s = conv.shape;
  if (norm.n != s.n || norm.h != s.oh || norm.w != s.ow || norm.channels != s.out)
    throw nb::value_error("the norm is not of the convolution's output");
  new (self) Stem{conv, norm};
}

StemTensors stem_tensors(const Stem& stem, const Arrays& arrays, bool is_forward) {
  const Sides sizes(stem.conv.shape);
  StemTensors t{};
  t.norm = norm_tensors(stem.norm, arrays, is_forward);
  t.images = arrays.required<const float>("images", sizes.in);
  if (is_forward) {
    t.weight = arrays.required<const float>("weight", sizes.weights);
    t.x = arrays.required<float>("x", sizes.out);
  } else {
    t.weight_grad = arrays.required<float>("weight_grad", sizes.weights);
  }
  return t;
}

void run_stem(const Stem& stem, int threads, const Named& arrays) {
  const StemTensors tensors = stem_tensors(stem, Arrays(arrays), true);
  const nb::gil_scoped_release release;
  TeamInUse team(threads);
  forward(stem, tensors, *team);
}

void run_stem_backward(const Stem& stem, int threads, const Named& arrays) {
  const StemTensors tensors = stem_tensors(stem, Arrays(arrays), false);
  const nb::gil_scoped_release release;
  TeamInUse team(threads);
  backward(stem, tensors, *team);
}

}  // namespace

void bind_training_real(nb::module_ m) {
  nb::class_<RealConv>(m, "RealConv", "A real convolution for one shape of input.")
      .def("__init__", &init_real_conv, nb::kw_only(), "n"_a, "h"_a, "w"_a, "inputs"_a, "outputs"_a, "kernel"_a,
           "stride"_a, "padding"_a, "weight_is_last"_a)
      .def("forward", &run_forward, "threads"_a, "arrays"_a)
      .def("backward", &run_backward, "threads"_a, "arrays"_a);
  nb::class_<Norm>(m, "Norm", "A BatchNorm for one shape of input.")
      .def("__init__", &init_norm, nb::kw_only(), "n"_a, "h"_a, "w"_a, "channels"_a, "pool"_a.none(), "batch_stats"_a,
           "eps"_a, "momentum"_a)
      .def("forward", &run_norm, "threads"_a, "arrays"_a)
      .def("backward", &run_norm_backward, "threads"_a, "arrays"_a);
  nb::class_<Average>(m, "Average", "An average pool for one shape of input.")
      .def("__init__", &init_average, nb::kw_only(), "n"_a, "h"_a, "w"_a, "channels"_a, "kernel"_a, "stride"_a,
           "padding"_a, "size"_a, "count_pad"_a)
      .def("forward", &run_average, "threads"_a, "arrays"_a)
      .def("backward", &run_average_backward, "threads"_a, "arrays"_a);
  nb::class_<StairsOfSize>(m, "Stairs", "A function that is constant between edges, for so many numbers.")
      .def("__init__", &init_stairs, nb::kw_only(), "size"_a, "edges"_a)
      .def("forward", &run_stairs, "threads"_a, "arrays"_a)
      .def("backward", &run_stairs_backward, "threads"_a, "arrays"_a);
  nb::class_<Stem>(m, "Stem", "A convolution of images and its BatchNorm.")
      .def("__init__", &init_stem, nb::kw_only(), "conv"_a, "norm"_a)
      .def("forward", &run_stem, "threads"_a, "arrays"_a)
      .def("backward", &run_stem_backward, "threads"_a, "arrays"_a);
}
