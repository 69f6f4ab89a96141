// How many threads are of use here.
#pragma once

namespace ftbnn {

// Cores that this process may use: of its affinity, and of a container's quota if there is one. At least 1.
int usable_cores();

}  // namespace ftbnn
