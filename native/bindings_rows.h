// Bindings of the row kernels.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "kernels/table.h"

void bind_rows(nanobind::module_& m);

namespace ftbnn {
const Kernels& kernels_named(const std::string& name);  // "reference" or an ISA of this CPU; throws ValueError
Act act_named(const std::string& name);                 // throws ValueError
}  // namespace ftbnn
