// The kernels in tiles of TILE x 2 vectors of LANES sums, which fill the registers of an ISA. Included by each ISA's
// file inside its unnamed namespace, so that no two share a copy.

typedef float Vector __attribute__((vector_size(LANES * sizeof(float))));
typedef float Loose __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

// body(n, first) for tiles of n numbers that cover all, as few as it takes and of nearly equal sizes; n is a constant.
template <int Most, typename Body>
inline void of_size(int size, const Body& body) {
  if constexpr (Most > 0) {
    if (size == Most) return body(std::integral_constant<int, Most>{});
    of_size<Most - 1>(size, body);
  }
}

template <typename Body>
inline void in_tiles(int total, const Body& body) {
  const int count = (total + TILE - 1) / TILE;
  for (int tile = 0, first = 0; tile < count; ++tile) {
    const int size = (total - first) / (count - tile);
    of_size<TILE>(size, [&](auto n) { body(n, first); });
    first += size;
  }
}

template <int Columns, int Positions>
void forward_tile(const RealTask& task, int first, const float* weights, int channels, float* out, std::size_t stride) {
  Vector sums[Positions][Columns] = {};
  for (int ky = 0; ky < task.kh; ++ky) {
    const float* in = task.in + static_cast<std::size_t>(first) * task.step + static_cast<std::size_t>(ky) * task.row;
    for (int k = 0; k < task.run; ++k, weights += 2 * LANES) {
      Vector factors[Columns];
      for (int c = 0; c < Columns; ++c) factors[c] = reinterpret_cast<const Vector*>(weights)[c];
#pragma GCC unroll 16
      for (int p = 0; p < Positions; ++p) {
        const float value = in[static_cast<std::size_t>(p) * task.step + static_cast<std::size_t>(k)];
#pragma GCC unroll 2
        for (int c = 0; c < Columns; ++c) sums[p][c] += value * factors[c];
      }
    }
  }
#pragma GCC unroll 16
  for (int p = 0; p < Positions; ++p) {
    float* to = out + static_cast<std::size_t>(first + p) * stride;
    if (channels == Columns * LANES) {
#pragma GCC unroll 2
      for (int c = 0; c < Columns; ++c) reinterpret_cast<Loose*>(to)[c] = sums[p][c];
    } else {
      __builtin_memcpy(to, sums[p], static_cast<std::size_t>(channels) * sizeof(float));
    }
  }
}

void forward(const RealTask& task, const float* weights, int channels, float* out, std::size_t stride) {
  in_tiles(task.positions, [&](auto n, int first) {
    constexpr int positions = decltype(n)::value;
    channels > LANES ? forward_tile<2, positions>(task, first, weights, channels, out, stride)
                     : forward_tile<1, positions>(task, first, weights, channels, out, stride);
  });
}

template <int Columns, int Numbers>
void gradient_tile(const RealTask& task, const float* in, const float* grad, std::size_t stride, float* to) {
  Vector sums[Numbers][Columns] = {};
  for (int p = 0; p < task.positions; ++p, in += task.step, grad += stride) {
    Vector factors[Columns];
#pragma GCC unroll 2
    for (int c = 0; c < Columns; ++c) factors[c] = reinterpret_cast<const Loose*>(grad)[c];
#pragma GCC unroll 16
    for (int k = 0; k < Numbers; ++k) {
      const float value = in[k];
#pragma GCC unroll 2
      for (int c = 0; c < Columns; ++c) sums[k][c] += value * factors[c];
    }
  }
#pragma GCC unroll 16
  for (int k = 0; k < Numbers; ++k) {
#pragma GCC unroll 2
    for (int c = 0; c < Columns; ++c) reinterpret_cast<Vector*>(to)[2 * k + c] += sums[k][c];
  }
}

void weight_gradient(const RealTask& task, const float* grad, std::size_t stride, bool half, float* sums) {
  for (int ky = 0; ky < task.kh; ++ky, sums += static_cast<std::size_t>(task.run) * 2 * LANES) {
    const float* in = task.in + static_cast<std::size_t>(ky) * task.row;
    in_tiles(task.run, [&](auto n, int first) {
      float* to = sums + static_cast<std::size_t>(first) * 2 * LANES;
      half ? gradient_tile<1, decltype(n)::value>(task, in + first, grad, stride, to)
           : gradient_tile<2, decltype(n)::value>(task, in + first, grad, stride, to);
    });
  }
}
