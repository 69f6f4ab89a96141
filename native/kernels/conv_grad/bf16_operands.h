// bf16 operands, for every kernel that multiplies them.
#pragma once

#include "kernels/conv_grad/conv_grad.h"

namespace ftbnn::bf16 {

void pack_rows(const float* from, std::size_t from_stride, int count, int channels, const GradRows& to);
void pack_columns(const float* const* from, int count, int channels, const GradRows& to);
void pack_codes(const std::uint64_t* const* from, int count, int first, int words, bool zero_one, void* to);
void pack_signs(const float* proxies, std::size_t row, int outs, int lanes, int taps, void* to, std::size_t tap_stride,
                int depth);
void scatter(const GradScatter& task);

}  // namespace ftbnn::bf16
