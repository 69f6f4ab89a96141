// What the CPU could do at most: loops that live in registers, timed on the spot.
//
// A kernel's share of its roof is comparable between machines and moments; its GMAC/s are not, as clocks wander.
#pragma once

#include <functional>

#include "base/table.h"

namespace ftbnn {

struct Roof {
  const char* instructions;
  double (*gmacs)();  // runs for about a millisecond; 1e9 multiply-accumulates a second, on the calling thread
};

// Of binary kernels, and of those in float32: the first that runs is the roof, others are what kernels were not made of
// (decision 0016). The last row of each is no roof: its function is null.
const Table<Roof>& binary_roofs();
const Table<Roof>& float_roofs();

// What all threads together reach at most: each repeats `gmacs` at the same time as the others, for so many seconds and
// once at least, and the best of each counts. Clocks need milliseconds to rise, and a neighbour may take a core away.
double best_of_threads(int threads, double seconds, const std::function<double()>& gmacs);

}  // namespace ftbnn
