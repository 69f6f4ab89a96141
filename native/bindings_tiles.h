// Bindings of the tile kernels.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "kernels/table.h"

void bind_tiles(nanobind::module_& m);

namespace ftbnn {
// amx_emulated, and amx once its instructions are trapped; else null.
const Kernels* tile_kernels_named(const std::string& name);
}  // namespace ftbnn
