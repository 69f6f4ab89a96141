#include "training/average.h"

#include "base/table.h"
#include "training/pieces.h"

namespace ftbnn::training {

namespace {

std::size_t z(int value) { return static_cast<std::size_t>(value); }

// body(image, row) for every row of every image.
template <typename Body>
void for_rows(int n, int rows, Team& team, const Body& body) {
  const Pieces pieces(z(n) * z(rows));
  team.run(pieces.count(), [&](int piece) {
    for (std::size_t k = 0; k < pieces.length(piece); ++k) {
      const std::size_t at = pieces.first(piece) + k;
      body(at / z(rows), static_cast<int>(at % z(rows)));
    }
  });
}

}  // namespace

void average(const PoolShape& s, int n, const float* x, float* out, Features usable, Team& team) {
  const PoolKernels& kernels = pool_table().best(usable).kernels;
  const std::size_t in_row = z(s.w) * z(s.channels), out_row = z(s.ow) * z(s.channels);
  for_rows(n, s.oh, team, [&](std::size_t image, int row) {
    kernels.average(s, x + image * z(s.h) * in_row, row, out + (image * z(s.oh) + z(row)) * out_row);
  });
}

void average_backward(const PoolShape& s, int n, const float* grad, float* grad_x, Features usable, Team& team) {
  const PoolKernels& kernels = pool_table().best(usable).kernels;
  const std::size_t in_row = z(s.w) * z(s.channels), out_row = z(s.ow) * z(s.channels);
  for_rows(n, s.h, team, [&](std::size_t image, int row) {
    kernels.spread(s, grad + image * z(s.oh) * out_row, row, grad_x + (image * z(s.h) + z(row)) * in_row);
  });
}

}  // namespace ftbnn::training
