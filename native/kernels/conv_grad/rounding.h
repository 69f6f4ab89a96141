// How gradients become bytes: the same in every ISA's file, to the last bit.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/conv_grad/conv_grad.h"

namespace ftbnn {

namespace {

// A float of GRAD_ZERO to 129 has 16 bits after the point: the upper half of the mixed bits goes there.
constexpr std::uint32_t ROUND_MIX = 0x9e3779b1, ROUND_BASE = 0x43000000;

// GRAD_ZERO + floor(value * rate + a chance of 0 to 1), for products of up to GRAD_STEPS. Anything for what is not a
// number: the steps of its row are none either.
inline int rounded_to_byte(float value, float rate) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = ROUND_BASE | (bits * ROUND_MIX) >> 16;
  float chance;
  std::memcpy(&chance, &bits, sizeof chance);
  const float sum = value * rate + chance;
  return sum == sum ? static_cast<int>(sum) : 0;
}

// Dwords whose products, two bytes with codes at a time, 16 bits hold the sum of.
constexpr int BYTE_PAIR_STEPS = 32767 / (2 * 255);

}  // namespace

}  // namespace ftbnn
