// What benchmarks need of the CPU.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <chrono>

#include "bench/roofs.h"
#include "bindings/module.h"
#include "kernels/conv_grad/conv_grad.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace ftbnn;

double reached(int threads, double seconds, const std::function<double()>& gmacs) {
  if (threads < 1) throw nb::value_error("a roof needs a thread");
  const nb::gil_scoped_release release;
  return best_of_threads(threads, seconds, gmacs);
}

nb::object roof(const std::string& isa, bool binary, int threads, double seconds) {
  const Roof& found = (binary ? binary_roofs() : float_roofs()).best(usable_features(isa)).kernels;
  if (found.gmacs == nullptr) return nb::none();
  return nb::make_tuple(found.instructions, reached(threads, seconds, found.gmacs));
}

nb::object gradient_roof(bool bytes, int threads, double seconds) {
  const GradKernels& kernels = (bytes ? byte_grad_table() : grad_table()).best(usable_features()).kernels;
  if (kernels.roof == nullptr) return nb::none();
  constexpr int steps = 20000;
  return nb::cast(reached(threads, seconds, [&] {
    const auto start = std::chrono::steady_clock::now();
    const double macs = kernels.roof(steps);
    return 1e-9 * macs / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }));
}

nb::list binary_loops() {
  nb::list found;
  for (const Row<Roof>& row : binary_roofs().rows()) {
    if (!row.runs_with(usable_features()) || row.kernels.gmacs == nullptr) continue;
    found.append(nb::make_tuple(row.name, row.kernels.instructions, reached(1, 0, row.kernels.gmacs)));
  }
  return found;
}

}  // namespace

void bind_bench(nb::module_ m) {
  m.doc() = "What benchmarks need of the CPU.";
  m.def("roof", &roof, "isa"_a, "binary"_a, "threads"_a = 1, "seconds"_a = 0.0,
        nb::sig("def roof(isa: str, binary: bool, threads: int = 1, seconds: float = 0.0) -> tuple[str, float] | None"),
        "(instructions, GMAC/s of all threads right now) of the loop that bounds this ISA's kernels, the best of each "
        "thread in so many seconds; None if there is none.");
  m.def("gradient_roof", &gradient_roof, "bytes"_a, "threads"_a, "seconds"_a,
        nb::sig("def gradient_roof(bytes: bool, threads: int, seconds: float) -> float | None"),
        "The same of the multiplications that the gradients of binary convolutions are made of.");
  m.def("binary_loops", &binary_loops, nb::sig("def binary_loops() -> list[tuple[str, str, float]]"),
        "(name, instructions, GMAC/s of one thread right now) of every way to count a binary convolution that the ISA "
        "in use has.");
}
