// The loops of rows.h that a compiler turns into any ISA's vectors. Included by each ISA's file inside its unnamed
// namespace, so that no two share a copy.

void moments(const float* __restrict x, std::size_t positions, int channels, float* __restrict sums) {
  const float* __restrict first = x;
  float* __restrict squares = sums + channels;
  for (int c = 0; c < channels; ++c) sums[c] = squares[c] = 0;
  for (std::size_t p = 0; p < positions; ++p, x += channels) {
    for (int c = 0; c < channels; ++c) {
      const float value = x[c] - first[c];
      sums[c] += value;
      squares[c] += value * value;
    }
  }
}

template <bool Linear, bool Shortcut>
void apply_rows(const float* __restrict x, const float* __restrict shortcut, std::size_t positions, int channels,
                const NormForm& form, float* __restrict out) {
  const float* __restrict mean = form.mean, * __restrict scale = form.scale, * __restrict shift = form.shift;
  const float* __restrict left = form.left, * __restrict right = form.right;
  for (std::size_t p = 0; p < positions; ++p, x += channels, out += channels) {
    for (int c = 0; c < channels; ++c) {
      float z = scale[c] * (x[c] - mean[c]) + shift[c];
      if (Shortcut) z += shortcut[c];
      if (Linear) {
        out[c] = z;
      } else {
        const float l = left[c], r = right[c];
        out[c] = (z > 0 ? r : l) * z;
      }
    }
    if (Shortcut) shortcut += channels;
  }
}

void apply(const float* x, const float* shortcut, std::size_t positions, int channels, const NormForm& form,
           float* out) {
  if (shortcut == nullptr) {
    form.linear ? apply_rows<true, false>(x, shortcut, positions, channels, form, out)
                : apply_rows<false, false>(x, shortcut, positions, channels, form, out);
  } else {
    form.linear ? apply_rows<true, true>(x, shortcut, positions, channels, form, out)
                : apply_rows<false, true>(x, shortcut, positions, channels, form, out);
  }
}

template <bool Linear, bool Shortcut>
void reduce_rows(const float* __restrict grad, const float* __restrict x, const float* __restrict shortcut,
                 std::size_t positions, int channels, const NormForm& form, float* __restrict sums) {
  const float* __restrict mean = form.mean, * __restrict scale = form.scale, * __restrict shift = form.shift;
  const float* __restrict left = form.left, * __restrict right = form.right;
  float* __restrict beta = sums, * __restrict gamma = beta + channels;
  float* __restrict lefts = gamma + channels, * __restrict rights = lefts + channels;
  for (int c = 0; c < 4 * channels; ++c) sums[c] = 0;
  for (std::size_t p = 0; p < positions; ++p, x += channels, grad += channels) {
    for (int c = 0; c < channels; ++c) {
      const float centered = x[c] - mean[c];
      float dz = grad[c];
      if (!Linear) {
        float z = scale[c] * centered + shift[c];
        if (Shortcut) z += shortcut[c];
        const float l = left[c], r = right[c], above = z > 0 ? z : 0.0F;
        rights[c] += dz * above;
        lefts[c] += dz * (z - above);
        dz *= z > 0 ? r : l;
      }
      beta[c] += dz;
      gamma[c] += dz * centered;
    }
    if (Shortcut) shortcut += channels;
  }
}

void reduce(const float* grad, const float* x, const float* shortcut, std::size_t positions, int channels,
            const NormForm& form, float* sums) {
  if (form.linear) {
    reduce_rows<true, false>(grad, x, nullptr, positions, channels, form, sums);
  } else if (shortcut == nullptr) {
    reduce_rows<false, false>(grad, x, nullptr, positions, channels, form, sums);
  } else {
    reduce_rows<false, true>(grad, x, shortcut, positions, channels, form, sums);
  }
}

// b and k may be null, and shortcut_grad: the compiler takes what does not change out of the loop.
template <bool Linear, bool Shortcut>
void differentiate_rows(const float* __restrict grad, const float* __restrict x, const float* __restrict shortcut,
                        std::size_t positions, int channels, const NormForm& form, const float* __restrict b,
                        const float* __restrict k, float* __restrict grad_x, float* __restrict shortcut_grad) {
  const float* __restrict mean = form.mean, * __restrict scale = form.scale, * __restrict shift = form.shift;
  const float* __restrict left = form.left, * __restrict right = form.right;
  for (std::size_t p = 0; p < positions; ++p, x += channels, grad += channels, grad_x += channels) {
    for (int c = 0; c < channels; ++c) {
      const float centered = x[c] - mean[c];
      float dz = grad[c];
      if (!Linear) {
        float z = scale[c] * centered + shift[c];
        if (Shortcut) z += shortcut[c];
        const float l = left[c], r = right[c];
        dz *= z > 0 ? r : l;
      }
      grad_x[c] = b != nullptr ? scale[c] * dz + (b[c] * centered + k[c]) : scale[c] * dz;
      if (shortcut_grad != nullptr) shortcut_grad[c] = dz;
    }
    if (shortcut_grad != nullptr) shortcut_grad += channels;
    if (Shortcut) shortcut += channels;
  }
}

void differentiate(const float* grad, const float* x, const float* shortcut, std::size_t positions, int channels,
                   const NormForm& form, const float* b, const float* c, float* grad_x, float* shortcut_grad) {
  if (form.linear) {
    differentiate_rows<true, false>(grad, x, nullptr, positions, channels, form, b, c, grad_x, shortcut_grad);
  } else if (shortcut == nullptr) {
    differentiate_rows<false, false>(grad, x, nullptr, positions, channels, form, b, c, grad_x, shortcut_grad);
  } else {
    differentiate_rows<false, true>(grad, x, shortcut, positions, channels, form, b, c, grad_x, shortcut_grad);
  }
}
