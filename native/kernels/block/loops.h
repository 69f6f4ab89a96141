// The loops of rows.h that a compiler turns into any ISA's vectors. Included by each ISA's file inside its unnamed
// namespace, so that no two share a copy.

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

template <bool Shortcut>
void activate_rows(const std::int16_t* __restrict y, const float* __restrict shortcut, std::size_t positions,
                   int channels, const BlockAffine& affine, float* __restrict out) {
  const float* __restrict scale = affine.scale, * __restrict shift = affine.shift;
  const float* __restrict left = affine.left, * __restrict right = affine.right;
  for (std::size_t p = 0; p < positions; ++p, y += channels, out += channels) {
    for (int c = 0; c < channels; ++c) {
      float z = scale[c] * static_cast<float>(y[c]) + shift[c];
      if (Shortcut) z += shortcut[c];
      const float l = left[c], r = right[c];
      out[c] = (z > 0 ? r : l) * z;
    }
    if (Shortcut) shortcut += channels;
  }
}

void activate(const std::int16_t* y, const float* shortcut, std::size_t positions, int channels,
              const BlockAffine& affine, float* out) {
  shortcut != nullptr ? activate_rows<true>(y, shortcut, positions, channels, affine, out)
                      : activate_rows<false>(y, shortcut, positions, channels, affine, out);
}

template <bool Linear, bool Shortcut>
void reduce_rows(const float* __restrict grad, const std::int16_t* __restrict y, const float* __restrict shortcut,
                 std::size_t positions, int channels, const BlockAffine& affine, const float* __restrict mean,
                 float* __restrict beta, float* __restrict gamma, float* __restrict lefts, float* __restrict rights) {
  const float* __restrict scale = affine.scale, * __restrict shift = affine.shift;
  const float* __restrict left = affine.left, * __restrict right = affine.right;
  for (std::size_t p = 0; p < positions; ++p, y += channels, grad += channels) {
    for (int c = 0; c < channels; ++c) {
      const auto value = static_cast<float>(y[c]);
      float dz = grad[c];
      if (!Linear) {
        float z = scale[c] * value + shift[c];
        if (Shortcut) z += shortcut[c];
        const float l = left[c], r = right[c], above = z > 0 ? z : 0.0F;
        rights[c] += dz * above;
        lefts[c] += dz * (z - above);
        dz *= z > 0 ? r : l;
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
}

template <bool Linear, bool Shortcut, bool Wanted>
void differentiate_rows(const float* __restrict grad, const std::int16_t* __restrict y,
                        const float* __restrict shortcut, std::size_t positions, int channels,
                        const BlockAffine& affine, const float* __restrict b, const float* __restrict k,
                        float* __restrict grad_y, float* __restrict shortcut_grad) {
  const float* __restrict scale = affine.scale, * __restrict shift = affine.shift;
  const float* __restrict left = affine.left, * __restrict right = affine.right;
  for (std::size_t p = 0; p < positions; ++p, y += channels, grad += channels, grad_y += channels) {
    for (int c = 0; c < channels; ++c) {
      const auto value = static_cast<float>(y[c]);
      float dz = grad[c];
      if (!Linear) {
        float z = scale[c] * value + shift[c];
        if (Shortcut) z += shortcut[c];
        const float l = left[c], r = right[c];
        dz *= z > 0 ? r : l;
      }
      grad_y[c] = scale[c] * dz + (b[c] * value + k[c]);
      if (Wanted) shortcut_grad[c] = dz;
    }
    if (Shortcut) shortcut += channels;
    if (Wanted) shortcut_grad += channels;
  }
}

template <bool Linear, bool Shortcut>
void differentiate_rows(const float* grad, const std::int16_t* y, const float* shortcut, std::size_t positions,
                        int channels, const BlockAffine& affine, const float* b, const float* c, float* grad_y,
                        float* shortcut_grad) {
  shortcut_grad != nullptr ? differentiate_rows<Linear, Shortcut, true>(grad, y, shortcut, positions, channels, affine,
                                                                        b, c, grad_y, shortcut_grad)
                           : differentiate_rows<Linear, Shortcut, false>(grad, y, shortcut, positions, channels, affine,
                                                                         b, c, grad_y, shortcut_grad);
}

void differentiate(const float* grad, const std::int16_t* y, const float* shortcut, std::size_t positions, int channels,
                   const BlockAffine& affine, const float* b, const float* c, float* grad_y, float* shortcut_grad) {
  if (affine.linear) {
    differentiate_rows<true, false>(grad, y, nullptr, positions, channels, affine, b, c, grad_y, shortcut_grad);
  } else if (shortcut != nullptr) {
    differentiate_rows<false, true>(grad, y, shortcut, positions, channels, affine, b, c, grad_y, shortcut_grad);
  } else {
    differentiate_rows<false, false>(grad, y, nullptr, positions, channels, affine, b, c, grad_y, shortcut_grad);
  }
}
