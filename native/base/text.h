// Text from a file, fit to be printed: one line, no control characters, not too long.
#pragma once

#include <string>

namespace ftbnn {

std::string shown(const std::string& utf8, std::size_t most = 80);

}  // namespace ftbnn
