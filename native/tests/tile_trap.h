// Runs tile instructions on a CPU that has none: each one faults, is decoded, and done by emulated_tiles.
//
// So tests can run the compiled AMX kernels as they are, encodings, operands, tile configuration and addresses, on any
// x86-64 Linux. A microsecond an instruction: for tests alone.
#pragma once

namespace ftbnn {

// True if tile instructions work from now on, by the CPU or by the trap.
bool trap_tiles();

}  // namespace ftbnn
