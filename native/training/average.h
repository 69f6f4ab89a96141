// Average pooling, forward and backward; backward needs nothing but the shape. Maps are [n][h][w][channels].
#pragma once

#include "base/cpu.h"
#include "base/team.h"
#include "kernels/pool/pool.h"

namespace ftbnn::training {

void average(const PoolShape& shape, int n, const float* x, float* out, Features usable, Team& team);
void average_backward(const PoolShape& shape, int n, const float* grad, float* grad_x, Features usable, Team& team);

}  // namespace ftbnn::training
