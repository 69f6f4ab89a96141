// Reads a .ftbnn file (docs/format.md). Strict: what it accepts can be run without further checks.
#pragma once

#include <string>

#include "engine/model.h"

namespace ftbnn {

Model parse(const void* bytes, std::size_t size, const Limits& limits);  // keeps a copy; throws FormatError
Model read_model(const std::string& path, const Limits& limits);  // throws FormatError, or std::system_error if it
                                                                  // cannot be read

}  // namespace ftbnn
