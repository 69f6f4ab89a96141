// The loops of rows.h that a compiler turns into any ISA's vectors. Included by each ISA's file inside its unnamed
// namespace, so that no two share a copy.

// As template arguments that are handed over like values.
struct Yes {
  constexpr operator bool() const { return true; }
};
struct No {
  constexpr operator bool() const { return false; }
};

void keep_chunk(const float* values, std::size_t positions, int channels, std::int16_t* y, std::int32_t* sums,
                std::int32_t* squares) {
  for (std::size_t p = 0; p < positions; ++p, values += channels, y += channels) {
    for (int c = 0; c < channels; ++c) {
      const auto value = static_cast<std::int32_t>(values[c]);
      y[c] = static_cast<std::int16_t>(value);
      sums[c] += value;
      squares[c] += value * value;
    }
  }
}

constexpr int CHANNEL_BLOCK = 1024;  // channels whose 32-bit sums lie on the stack

void keep(const float* values, std::size_t positions, int channels, int limit, std::int16_t* y, std::int64_t* sums,
          std::int64_t* squares) {
  const std::size_t chunk = static_cast<std::size_t>(INT32_MAX / (limit * limit));
  if (channels > CHANNEL_BLOCK || chunk < 2) {
    for (std::size_t p = 0; p < positions; ++p, values += channels, y += channels) {
      for (int c = 0; c < channels; ++c) {
        const auto value = static_cast<std::int32_t>(values[c]);
        y[c] = static_cast<std::int16_t>(value);
        sums[c] += value;
        squares[c] += static_cast<std::int64_t>(value * value);
      }
    }
    return;
  }
  std::int32_t part[2][CHANNEL_BLOCK];
  for (std::size_t p = 0; p < positions; p += chunk) {
    const std::size_t count = positions - p < chunk ? positions - p : chunk;
    for (int c = 0; c < channels; ++c) part[0][c] = part[1][c] = 0;
    keep_chunk(values + p * channels, count, channels, y + p * channels, part[0], part[1]);
    for (int c = 0; c < channels; ++c) {
      sums[c] += part[0][c];
      squares[c] += part[1][c];
    }
  }
}

template <bool Shortcut, bool After>
void activate_rows(const std::int16_t* __restrict y, const float* __restrict shortcut, std::size_t positions,
                   int channels, const BlockAffine& affine, float* __restrict out) {
  const float* __restrict scale = affine.scale, * __restrict shift = affine.shift;
  const float* __restrict left = affine.left, * __restrict right = affine.right;
  const float* __restrict after = affine.after;
  const float limit = affine.limit;
  for (std::size_t p = 0; p < positions; ++p, y += channels, out += channels) {
    for (int c = 0; c < channels; ++c) {
      float z = scale[c] * static_cast<float>(y[c]) + shift[c];
      if (Shortcut) z += shortcut[c];
      const float l = left[c], r = right[c];
      float value = (z > 0 ? r : l) * z;
      value = value > limit ? limit : value;  // what is not a number stays so
      value = value < -limit ? -limit : value;
      out[c] = After ? value + after[c] : value;
    }
    if (Shortcut) shortcut += channels;
  }
}

template <bool After>
void activate_rows(const std::int16_t* y, const float* shortcut, std::size_t positions, int channels,
                   const BlockAffine& affine, float* out) {
  shortcut != nullptr ? activate_rows<true, After>(y, shortcut, positions, channels, affine, out)
                      : activate_rows<false, After>(y, shortcut, positions, channels, affine, out);
}

void activate(const std::int16_t* y, const float* shortcut, std::size_t positions, int channels,
              const BlockAffine& affine, float* out) {
  affine.after != nullptr ? activate_rows<true>(y, shortcut, positions, channels, affine, out)
                          : activate_rows<false>(y, shortcut, positions, channels, affine, out);
}

template <bool Linear, bool Shortcut>
void reduce_rows(const float* __restrict grad, const std::int16_t* __restrict y, const float* __restrict shortcut,
                 std::size_t positions, int channels, const BlockAffine& affine, const float* __restrict mean,
                 float* __restrict beta, float* __restrict gamma, float* __restrict lefts, float* __restrict rights) {
  const float* __restrict scale = affine.scale, * __restrict shift = affine.shift;
  const float* __restrict left = affine.left, * __restrict right = affine.right;
  const float limit = affine.limit;
  for (std::size_t p = 0; p < positions; ++p, y += channels, grad += channels) {
    for (int c = 0; c < channels; ++c) {
      const auto value = static_cast<float>(y[c]);
      float dz = grad[c];
      if (!Linear) {
        float z = scale[c] * value + shift[c];
        if (Shortcut) z += shortcut[c];
        // Not a second choice by z, which compilers make a branch of.
        const float l = left[c], r = right[c], above = (z + __builtin_fabsf(z)) * 0.5F;
        rights[c] += dz * above;
        lefts[c] += dz * (z - above);
        dz *= z > 0 ? r : l;
        dz = __builtin_fabsf(z) >= limit ? 0.0F : dz;
      }
      beta[c] += dz;
      gamma[c] += dz * (value - mean[c]);
    }
    if (Shortcut) shortcut += channels;
  }
}

void reduce(const float* grad, const std::int16_t* y, const float* shortcut, std::size_t positions, int channels,
            const BlockAffine& affine, const float* mean, float* sums) {
  float *beta = sums, *gamma = beta + channels, *left = gamma + channels, *right = left + channels;
  if (affine.linear) {
    reduce_rows<true, false>(grad, y, nullptr, positions, channels, affine, mean, beta, gamma, left, right);
  } else if (shortcut != nullptr) {
    reduce_rows<false, true>(grad, y, shortcut, positions, channels, affine, mean, beta, gamma, left, right);
  } else {
    reduce_rows<false, false>(grad, y, nullptr, positions, channels, affine, mean, beta, gamma, left, right);
  }
  if (affine.after == nullptr) return;
  float* __restrict behind = right + channels;
  for (std::size_t p = 0; p < positions; ++p, grad += channels) {
    for (int c = 0; c < channels; ++c) behind[c] += grad[c];
  }
}

template <bool Linear, bool Shortcut, bool Wanted, bool Largest>
void differentiate_rows(const float* __restrict grad, const std::int16_t* __restrict y,
                        const float* __restrict shortcut, std::size_t positions, int channels,
                        const BlockAffine& affine, const float* __restrict b, const float* __restrict k,
                        float* __restrict grad_y, float* __restrict shortcut_grad, std::uint32_t* __restrict largest) {
  const float* __restrict scale = affine.scale, * __restrict shift = affine.shift;
  const float* __restrict left = affine.left, * __restrict right = affine.right;
  const float limit = affine.limit;
  for (std::size_t p = 0; p < positions; ++p, y += channels, grad += channels, grad_y += channels) {
    // Or every position would be asked whether arrays overlap.
#pragma GCC ivdep
    for (int c = 0; c < channels; ++c) {
      const auto value = static_cast<float>(y[c]);
      float dz = grad[c];
      if (!Linear) {
        float z = scale[c] * value + shift[c];
        if (Shortcut) z += shortcut[c];
        const float l = left[c], r = right[c];
        dz *= z > 0 ? r : l;
        dz = __builtin_fabsf(z) >= limit ? 0.0F : dz;
      }
      const float made = scale[c] * dz + (b[c] * value + k[c]);
      grad_y[c] = made;
      if (Wanted) shortcut_grad[c] = dz;
      if (Largest) {
        std::uint32_t bits;
        __builtin_memcpy(&bits, &made, sizeof bits);
        bits &= 0x7fffffff;
        largest[c] = largest[c] > bits ? largest[c] : bits;
      }
    }
    if (Shortcut) shortcut += channels;
    if (Wanted) shortcut_grad += channels;
  }
}

void differentiate(const float* grad, const std::int16_t* y, const float* shortcut, std::size_t positions, int channels,
                   const BlockAffine& affine, const float* b, const float* c, float* grad_y, float* shortcut_grad,
                   std::uint32_t* largest) {
  const auto run = [&](auto linear, auto shortcut_too, auto wanted, auto largest_too) {
    differentiate_rows<linear, shortcut_too, wanted, largest_too>(grad, y, shortcut, positions, channels, affine, b, c,
                                                                  grad_y, shortcut_grad, largest);
  };
  const auto with_largest = [&](auto linear, auto shortcut_too, auto wanted) {
    largest != nullptr ? run(linear, shortcut_too, wanted, Yes()) : run(linear, shortcut_too, wanted, No());
  };
  const auto with_gradient = [&](auto linear, auto shortcut_too) {
    shortcut_grad != nullptr ? with_largest(linear, shortcut_too, Yes()) : with_largest(linear, shortcut_too, No());
  };
  if (affine.linear) {
    with_gradient(Yes(), No());
  } else {
    shortcut != nullptr ? with_gradient(No(), Yes()) : with_gradient(No(), No());
  }
}

// e^-v for v >= 0, to a few units in the last place: a power of two, and a polynomial of what is left of the exponent.
inline float exp_minus(float v) {
  v = v < 87.0F ? v : 87.0F;
  const float turns = v * -1.44269504F, whole = turns - 0.5F;
  const auto power = static_cast<std::int32_t>(whole);
  const float f = (turns - static_cast<float>(power)) * 0.693147181F;  // -ln 2 / 2 to ln 2 / 2
  const float series =
      1 + f * (1 + f * (0.5F + f * (0.166666667F + f * (0.0416666667F + f * (0.00833333333F + f * 0.00138888889F)))));
  const std::int32_t bits = (power + 127) << 23;
  float scale;
  __builtin_memcpy(&scale, &bits, sizeof scale);
  return series * scale;
}

template <GradientRule::Kind Rule>
inline float derivative(float u, float a, float b) {
  const float magnitude = __builtin_fabsf(u);
  if (Rule == GradientRule::window) return magnitude <= a ? 1.0F : 0.0F;
  if (Rule == GradientRule::polynomial) return magnitude < 1 ? 2 - 2 * magnitude : 0.0F;
  const float e = exp_minus(2 * a * magnitude), sum = 1 + e;  // 1 - tanh(v)^2 = 4 e / (1 + e)^2, e = exp(-2 |v|)
  return a * b * 4 * e / (sum * sum);
}

template <GradientRule::Kind Rule>
void pass_rows(const float* __restrict x, const float* __restrict add, const float* __restrict through,
               std::size_t positions, int channels, float a, float b, float* __restrict grad, float* __restrict sums) {
  for (std::size_t p = 0; p < positions; ++p, x += channels, grad += channels) {
    for (int c = 0; c < channels; ++c) {
      const float u = add != nullptr ? x[c] + add[c] : x[c];
      const float passed = grad[c] * derivative<Rule>(u, a, b);
      sums[c] += passed;
      grad[c] = passed;
    }
    if (through == nullptr) continue;
    for (int c = 0; c < channels; ++c) grad[c] += through[c];
    through += channels;
  }
}

void pass(const float* x, const float* add, const float* through, std::size_t positions, int channels,
          const GradientRule& rule, float* grad, float* sums) {
  if (rule.kind == GradientRule::window) {
    pass_rows<GradientRule::window>(x, add, through, positions, channels, rule.a, rule.b, grad, sums);
  } else if (rule.kind == GradientRule::polynomial) {
    pass_rows<GradientRule::polynomial>(x, add, through, positions, channels, rule.a, rule.b, grad, sums);
  } else {
    pass_rows<GradientRule::tanh>(x, add, through, positions, channels, rule.a, rule.b, grad, sums);
  }
}
