// The only file that knows Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/cpu.h"

namespace nb = nanobind;

namespace {

std::vector<std::string> isa_names() {
  std::vector<std::string> names;
  for (const ftbnn::Isa isa : ftbnn::cpu().isas) names.emplace_back(ftbnn::isa_name(isa));
  return names;
}

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "The native core: what the CPU can do.";
  m.def("cpu_name", [] { return ftbnn::cpu().name; }, "Brand string of the CPU.");
  m.def(
      "cpu_features", [] { return ftbnn::cpu().features; },
      "Instruction sets the kernels care about that the CPU and the operating system both offer.");
  m.def("isas", &isa_names, "ISAs whose kernels may run here, best first.");
  m.def(
      "isa_in_use", [] { return std::string(ftbnn::isa_name(ftbnn::isa_in_use())); },
      "The ISA the kernels use: the best one, or the one FTBNN_ISA names. Raises ValueError if it cannot be used.");
}
