// What convolutions of all kinds know of their operators.
#pragma once

#include "engine/operators/fused.h"
#include "kernels/window.h"

namespace ftbnn {

ConvShape conv_shape(const Operator& op, const Model& model);
std::uint64_t weight_count(const Operator& op, const Shape& in, const Shape& out);

}  // namespace ftbnn
