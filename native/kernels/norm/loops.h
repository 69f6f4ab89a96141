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

template <bool Linear>
void apply_rows(const float* __restrict x, std::size_t positions, int channels, const NormForm& form,
                float* __restrict out) {
  const float* __restrict mean = form.mean, * __restrict scale = form.scale, * __restrict shift = form.shift;
  const float* __restrict left = form.left, * __restrict right = form.right;
  for (std::size_t p = 0; p < positions; ++p, x += channels, out += channels) {
    for (int c = 0; c < channels; ++c) {
      const float z = scale[c] * (x[c] - mean[c]) + shift[c];
      if (Linear) {
        out[c] = z;
      } else {
        const float l = left[c], r = right[c];
        out[c] = (z > 0 ? r : l) * z;
      }
    }
  }
}

void apply(const float* x, std::size_t positions, int channels, const NormForm& form, float* out) {
  form.linear ? apply_rows<true>(x, positions, channels, form, out)
              : apply_rows<false>(x, positions, channels, form, out);
}

template <bool Linear>
void reduce_rows(const float* __restrict grad, const float* __restrict x, std::size_t positions, int channels,
                 const NormForm& form, float* __restrict sums) {
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
        const float z = scale[c] * centered + shift[c];
        const float l = left[c], r = right[c], above = z > 0 ? z : 0.0F;
        rights[c] += dz * above;
        lefts[c] += dz * (z - above);
        dz *= z > 0 ? r : l;
      }
      beta[c] += dz;
      gamma[c] += dz * centered;
    }
  }
}

void reduce(const float* grad, const float* x, std::size_t positions, int channels, const NormForm& form, float* sums) {
  form.linear ? reduce_rows<true>(grad, x, positions, channels, form, sums)
              : reduce_rows<false>(grad, x, positions, channels, form, sums);
}

template <bool Linear, bool Batch>
void differentiate_rows(const float* __restrict grad, const float* __restrict x, std::size_t positions, int channels,
                        const NormForm& form, const float* __restrict b, const float* __restrict k,
                        float* __restrict grad_x) {
  const float* __restrict mean = form.mean, * __restrict scale = form.scale, * __restrict shift = form.shift;
  const float* __restrict left = form.left, * __restrict right = form.right;
  for (std::size_t p = 0; p < positions; ++p, x += channels, grad += channels, grad_x += channels) {
    for (int c = 0; c < channels; ++c) {
      const float centered = x[c] - mean[c];
      float dz = grad[c];
      if (!Linear) {
        const float l = left[c], r = right[c];
        dz *= scale[c] * centered + shift[c] > 0 ? r : l;
      }
      grad_x[c] = Batch ? scale[c] * dz + (b[c] * centered + k[c]) : scale[c] * dz;
    }
  }
}

template <bool Batch>
void differentiate_rows(const float* grad, const float* x, std::size_t positions, int channels, const NormForm& form,
                        const float* b, const float* c, float* grad_x) {
  form.linear ? differentiate_rows<true, Batch>(grad, x, positions, channels, form, b, c, grad_x)
              : differentiate_rows<false, Batch>(grad, x, positions, channels, form, b, c, grad_x);
}

void differentiate(const float* grad, const float* x, std::size_t positions, int channels, const NormForm& form,
                   const float* b, const float* c, float* grad_x) {
  b != nullptr ? differentiate_rows<true>(grad, x, positions, channels, form, b, c, grad_x)
               : differentiate_rows<false>(grad, x, positions, channels, form, b, c, grad_x);
}
