// What the CPU could do at most: loops that live in registers, timed on the spot.
//
// A kernel's share of its roof is comparable between machines and moments; its GMAC/s are not, as clocks wander.
#pragma once

#include <vector>

#include "base/cpu.h"

namespace ftbnn {

struct Roof {
  const char* name;   // the instructions
  Isa isa;            // whose kernels it bounds
  bool binary;        // bounds binary kernels; else those in float32
  double (*gmacs)();  // runs for about a millisecond; 1e9 multiply-accumulates a second, on the calling thread
};

// The roofs that this CPU can run.
const std::vector<Roof>& roofs();

}  // namespace ftbnn
