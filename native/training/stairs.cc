#include "training/stairs.h"

#include <algorithm>
#include <vector>

#include "base/table.h"
#include "training/pieces.h"

namespace ftbnn::training {

namespace {

constexpr std::size_t LEAST = 1U << 14;  // numbers of a piece: a thread is not woken for fewer

}  // namespace

void climb(const Stairs& stairs, std::size_t size, const float* x, float* out, std::uint8_t* steps, Features usable,
           Team& team) {
  const StairsKernels& kernels = stairs_table().best(usable).kernels;
  const Pieces pieces(size, LEAST);
  team.run(pieces.count(), [&](int piece) {
    const std::size_t first = pieces.first(piece);
    kernels.climb(stairs, x + first, pieces.length(piece), out + first, steps + first);
  });
}

void descend(const Stairs& stairs, std::size_t size, const float* grad, const std::uint8_t* steps, float* grad_x,
             float* heights_grad, Features usable, Team& team) {
  const StairsKernels& kernels = stairs_table().best(usable).kernels;
  const Pieces pieces(size, LEAST);
  const std::size_t heights = static_cast<std::size_t>(stairs.count) + 1;
  std::vector<double> sums(heights_grad != nullptr ? heights * static_cast<std::size_t>(pieces.count()) : 0);
  team.run(pieces.count(), [&](int piece) {
    const std::size_t first = pieces.first(piece);
    double* own = sums.empty() ? nullptr : sums.data() + static_cast<std::size_t>(piece) * heights;
    kernels.descend(stairs, grad + first, steps + first, pieces.length(piece), grad_x + first, own);
  });
  if (heights_grad == nullptr) return;
  std::vector<double> all(heights);
  add_rows(sums, all);
  std::transform(all.begin(), all.end(), heights_grad, [](double sum) { return static_cast<float>(sum); });
}

}  // namespace ftbnn::training
