// What this CPU can run, asked once.
//
// An ISA is a set of instructions that a family of kernels is compiled for. A kernel may run only if the CPU has
// the instructions *and* the operating system saves the registers they use, so both are asked: CPUID for the
// first, XCR0 (and for AMX a permission from the kernel) for the second.
#pragma once

#include <string>
#include <vector>

namespace ftbnn {

// amx_emulated is for tests: the AMX kernels with their tiles in plain C++, on a CPU that has avx512. Nothing chooses
// it.
enum class Isa { portable, avx2, avx512, avx512bf16, amx_emulated, amx };

const char* isa_name(Isa isa);

struct Cpu {
  std::string name;                   // brand string, or the architecture where there is none
  std::vector<std::string> features;  // instruction sets the kernels care about, as /proc/cpuinfo spells them
  std::vector<Isa> isas;              // what may run here, best first; portable is always last
  bool amx_bf16 = false;              // bf16 tiles beside the int8 ones
  bool avx512_vnni = false;           // products of bytes in vectors
};

// The machine's description, found on first use. Thread-safe.
const Cpu& cpu();

// The ISA the kernels use: the best one, or the one that FTBNN_ISA names.
// Throws std::invalid_argument, with the valid names in its text, if that one is unknown or this CPU lacks it.
Isa isa_in_use();

// True on guests that show AMX in CPUID but not how its tiles look (leaf 0x1D): libraries that ask for it, as oneDNN
// does, end in SIGILL there. Our own kernels do not ask.
bool hides_tile_palette();

}  // namespace ftbnn
