// What benchmarks need of the CPU.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bench/roofs.h"
#include "bindings/module.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace ftbnn;

double measure(const Roof& roof) {
  const nb::gil_scoped_release release;
  return roof.gmacs();
}

nb::object roof(const std::string& isa, bool binary) {
  const Roof& found = (binary ? binary_roofs() : float_roofs()).best(usable_features(isa)).kernels;
  return found.gmacs == nullptr ? nb::none() : nb::object(nb::make_tuple(found.instructions, measure(found)));
}

nb::list binary_loops() {
  nb::list found;
  for (const Row<Roof>& row : binary_roofs().rows()) {
    if (!row.runs_with(usable_features()) || row.kernels.gmacs == nullptr) continue;
    found.append(nb::make_tuple(row.name, row.kernels.instructions, measure(row.kernels)));
  }
  return found;
}

}  // namespace

void bind_bench(nb::module_ m) {
  m.doc() = "What benchmarks need of the CPU.";
  m.def("hides_tile_palette", &hides_tile_palette, "True where libraries that use AMX end in SIGILL.");
  m.def("roof", &roof, "isa"_a, "binary"_a, nb::sig("def roof(isa: str, binary: bool) -> tuple[str, float] | None"),
        "(instructions, GMAC/s of one thread right now) of the loop that bounds this ISA's kernels; None if there is "
        "none.");
  m.def("binary_loops", &binary_loops, nb::sig("def binary_loops() -> list[tuple[str, str, float]]"),
        "(name, instructions, GMAC/s of one thread right now) of every way to count a binary convolution that the ISA "
        "in use has.");
}
