// A function of one number that is constant between edges, and its gradient, which is too: the contract of its kernels.
//
//   step   = how many of the edges x is greater than
//   out    = heights[step]
//   grad_x = grad * slopes[step], and of heights[k] the sum of the gradients with step k
//
// Edges rise; equal ones may stand side by side. What is not a number is greater than none.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ftbnn {

struct Stairs {
  int count;             // of edges, 1 to MOST_EDGES
  const float* edges;    // [count]
  const float* heights;  // [count + 1]
  const float* slopes;   // [count + 1]
};

constexpr int MOST_EDGES = 255;  // a step is a byte

struct StairsKernels {
  void (*climb)(const Stairs& stairs, const float* x, std::size_t size, float* out, std::uint8_t* steps);

  // sums: [count + 1], added to; null if nobody wants them.
  void (*descend)(const Stairs& stairs, const float* grad, const std::uint8_t* steps, std::size_t size, float* grad_x,
                  double* sums);
};

template <typename Kernels>
class Table;
const Table<StairsKernels>& stairs_table();

}  // namespace ftbnn
