// Average pooling, forward and backward; backward needs nothing but the shape. Maps are [n][h][w][channels].
#pragma once

#include "base/team.h"
#include "kernels/pool/rows.h"

namespace ftbnn::training {

void average(const PoolShape& shape, int n, const float* x, float* out, Isa isa, Team& team);
void average_backward(const PoolShape& shape, int n, const float* grad, float* grad_x, Isa isa, Team& team);

}  // namespace ftbnn::training
