// What an aarch64 CPU is called.
#pragma once

#include <string>

namespace ftbnn {

// The kinds of cores it has, as "Cortex-A55 (implementer 0x41, part 0xd05) + Cortex-A76 (...)"; "aarch64" where the
// system does not tell.
std::string arm_name();

}  // namespace ftbnn
