// The gradients of a binary convolution as Python sees them: addresses and sizes.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>

#include "training/bindings_address.h"
#include "training/conv_grad.h"
#include "training/conv_grad_timing.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace ftbnn;
using namespace ftbnn::training;

using Sizes = std::array<int, 12>;

ConvShape shape_of(const Sizes& s) {
  return {s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11]};
}

const GradKernels& kernels_named(const std::string& name) {
  const GradKernels* found = grad_kernels_named(name);
  if (found == nullptr) throw nb::value_error("no such kernels on this CPU");
  return *found;
}

}  // namespace

void bind_conv_grad(nb::module_ m) {
  m.def("grad_kernels", &grad_kernel_names,
        "Names of the kernels that run here, best first: an ISA each; then those for tests and those of bytes.");
  m.def(
      "has_byte_kernels", [] { return byte_grad_kernels_for(isa_in_use()).isa != Isa::portable; },
      "Whether gradients in bytes have kernels of their own here.");
  m.def(
      "grad_input",
      [](const std::string& isa, const Sizes& shape, Address gy, Address weight, Address tail, Address inside,
         Address gx, int threads) {
        const GradKernels& kernels = kernels_named(isa);
        const nb::gil_scoped_release release;
        Team team(threads);
        grad_input(shape_of(shape), at<const float>(gy), at<const float>(weight), at<const float>(tail),
                   at<const std::uint64_t>(inside), at<float>(gx), kernels, team);
      },
      "isa"_a, "shape"_a, "gy"_a, "weight"_a, "tail"_a, "inside"_a, "gx"_a, "threads"_a = 1,
      "Adds to gx; shape is n, h, w, in, out, kh, kw, sh, sw, ph, pw, groups. native/training/conv_grad.h.");
  m.def(
      "grad_weight",
      [](const std::string& isa, const Sizes& shape, Address gy, Address codes, bool zero_one, Address weight,
         Address tail, float bound, Address gw, Address gtail, int threads) {
        const GradKernels& kernels = kernels_named(isa);
        const nb::gil_scoped_release release;
        Team team(threads);
        grad_weight(shape_of(shape), at<const float>(gy), at<const std::uint64_t>(codes), zero_one,
                    at<const float>(weight), at<const float>(tail), bound, at<float>(gw), at<float>(gtail), kernels,
                    team);
      },
      "isa"_a, "shape"_a, "gy"_a, "codes"_a, "zero_one"_a, "weight"_a, "tail"_a, "bound"_a, "gw"_a, "gtail"_a,
      "threads"_a = 1, "Writes gw and gtail.");
  m.def(
      "conv_gradients",
      [](const std::string& isa, const Sizes& sizes, Address gy, Address weight, Address tail, Address inside,
         Address gx, Address codes, bool zero_one, float bound, Address gw, Address gtail, int threads) {
        const GradKernels& kernels = kernels_named(isa);
        const ConvShape shape = shape_of(sizes);
        const nb::gil_scoped_release release;
        Team team(threads);
        gradients(shape, whole(shape, at<const float>(gy)), at<const float>(weight), at<const float>(tail),
                  ToInput{at<const std::uint64_t>(inside), at<float>(gx)},
                  ToWeight{at<const std::uint64_t>(codes), zero_one, bound, at<float>(gw), at<float>(gtail)}, kernels,
                  team);
      },
      "isa"_a, "shape"_a, "gy"_a, "weight"_a, "tail"_a, "inside"_a, "gx"_a, "codes"_a, "zero_one"_a, "bound"_a, "gw"_a,
      "gtail"_a, "threads"_a = 1, "Both gradients in one pass over gy.");
  m.def(
      "time_conv_grad",
      [](const std::string& isa, const Sizes& shape, int threads, int rounds) {
        const GradKernels& kernels = kernels_named(isa);
        ConvGradTiming timing{};
        {
          const nb::gil_scoped_release release;
          timing = time_conv_grad(shape_of(shape), kernels, threads, rounds);
        }
        return nb::make_tuple(timing.input_seconds, timing.weight_seconds, timing.both_seconds, timing.roof_gmacs);
      },
      "isa"_a, "shape"_a, "threads"_a, "rounds"_a,
      nb::sig("def time_conv_grad(isa: str, shape: Sequence[int], threads: int, rounds: int) -> "
              "tuple[float, float, float, float]"),
      "Seconds of the input's gradient, of the weights' and of both in one, on random data, and the GMAC/s that the "
      "CPU "
      "could reach.");
}
