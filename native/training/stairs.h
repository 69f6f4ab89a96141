// A function that is constant between edges, over any numbers, forward and backward.
#pragma once

#include "base/cpu.h"
#include "base/team.h"
#include "kernels/stairs/stairs.h"

namespace ftbnn::training {

void climb(const Stairs& stairs, std::size_t size, const float* x, float* out, std::uint8_t* steps, Features usable,
           Team& team);

// heights_grad may be null.
void descend(const Stairs& stairs, std::size_t size, const float* grad, const std::uint8_t* steps, float* grad_x,
             float* heights_grad, Features usable, Team& team);

}  // namespace ftbnn::training
