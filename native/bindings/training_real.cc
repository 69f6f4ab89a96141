// Training of what is not binary, as Python sees it: operators for one shape of input, called with named arrays.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>

#include <algorithm>
#include <array>

#include "bindings/arrays.h"
#include "bindings/module.h"
#include "bindings/team.h"
#include "training/real_conv.h"

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
  forward(conv, x, weight, out, *team);
}

void run_backward(const RealConv& conv, int threads, const Named& given) {
  const Arrays arrays(given);
  const Sides sizes(conv.shape);
  const auto* x = arrays.required<const float>("x", sizes.in);
  const auto* grad = arrays.required<const float>("grad", sizes.out);
  auto* weight_grad = arrays.required<float>("weight_grad", sizes.weights);
  const nb::gil_scoped_release release;
  TeamInUse team(threads);
  backward(conv, x, grad, weight_grad, *team);
}

}  // namespace

void bind_training_real(nb::module_ m) {
  nb::class_<RealConv>(m, "RealConv", "A real convolution for one shape of input.")
      .def("__init__", &init_real_conv, nb::kw_only(), "n"_a, "h"_a, "w"_a, "inputs"_a, "outputs"_a, "kernel"_a,
           "stride"_a, "padding"_a, "weight_is_last"_a)
      .def("forward", &run_forward, "threads"_a, "arrays"_a)
      .def("backward", &run_backward, "threads"_a, "arrays"_a);
}
