// The curves of between.h, in loops that a compiler turns into any ISA's vectors. Included by each ISA's file inside
// its unnamed namespace, so that no two share a copy.

// e^x between 2^-126 and 2^127: a power of two, and a polynomial of what is left of the exponent, -ln 2 / 2 to ln 2 /
// 2, whose relative error is below 2e-7.
inline float exp_of(float x) {
  x = x > -87.0F ? x : -87.0F;
  x = x < 87.0F ? x : 87.0F;
  const float turns = x * 1.44269504F;
  const auto power = static_cast<std::int32_t>(turns + (turns < 0 ? -0.5F : 0.5F));
  const float whole = static_cast<float>(power);
  const float f =
      (x - whole * 0.693145752F) - whole * 1.42860677e-6F;  // ln 2 in two parts: the first one's product is exact
  const float series =
      1 + f * (1 + f * (0.5F + f * (0.166666667F + f * (0.0416666667F + f * (0.00833333333F + f * 0.00138888889F)))));
  const std::int32_t bits = (power + 127) * (1 << 23);
  float scale;
  __builtin_memcpy(&scale, &bits, sizeof scale);
  return series * scale;
}

inline float sigmoid_of(float y) { return 1 / (1 + exp_of(-y)); }

inline float ramp_of(float y) {  // 0 to 6
  const float up = y + 3, above = up > 0 ? up : 0;
  return above < 6 ? above : 6;
}

template <Curve Which>
void bend_all(float* values, std::size_t count) {
  for (std::size_t k = 0; k < count; ++k) {
    const float y = values[k];
    values[k] = Which == Curve::hardswish     ? y * ramp_of(y) / 6
                : Which == Curve::hardsigmoid ? ramp_of(y) / 6
                : Which == Curve::sigmoid     ? sigmoid_of(y)
                : Which == Curve::silu        ? y * sigmoid_of(y)
                                              : 2 * sigmoid_of(2 * y) - 1;
  }
}

void bend(Curve curve, float* values, std::size_t count) {
  switch (curve) {
    case Curve::none:
      return;
    case Curve::hardswish:
      return bend_all<Curve::hardswish>(values, count);
    case Curve::hardsigmoid:
      return bend_all<Curve::hardsigmoid>(values, count);
    case Curve::sigmoid:
      return bend_all<Curve::sigmoid>(values, count);
    case Curve::silu:
      return bend_all<Curve::silu>(values, count);
    case Curve::tanh:
      return bend_all<Curve::tanh>(values, count);
  }
}
