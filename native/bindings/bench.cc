// What benchmarks need of the CPU.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bench/roofs.h"
#include "bindings/module.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

nb::object roof(const std::string& isa, bool binary) {
  using namespace ftbnn;
  const Roof& found = (binary ? binary_roofs() : float_roofs()).best(usable_features(isa)).kernels;
  if (found.gmacs == nullptr) return nb::none();
  double rate = 0;
  {
    const nb::gil_scoped_release release;
    rate = found.gmacs();
  }
  return nb::make_tuple(found.instructions, rate);
}

}  // namespace

void bind_bench(nb::module_ m) {
  m.doc() = "What benchmarks need of the CPU.";
  m.def("hides_tile_palette", &ftbnn::hides_tile_palette, "True where libraries that use AMX end in SIGILL.");
  m.def("roof", &roof, "isa"_a, "binary"_a, nb::sig("def roof(isa: str, binary: bool) -> tuple[str, float] | None"),
        "(instructions, GMAC/s of one thread right now) of the loop that bounds this ISA's kernels; None if there is "
        "none.");
}
