// The loops of rows.h over vectors of LANES channels, and over those left in ever shorter ones. Included by each ISA's
// file inside its unnamed namespace, so that no two share a copy.

template <int Lanes>
struct Vectors {
  typedef float Floats __attribute__((vector_size(Lanes * sizeof(float))));
  typedef std::int32_t Ints __attribute__((vector_size(Lanes * sizeof(std::int32_t))));
  typedef std::uint8_t Bytes __attribute__((vector_size(Lanes)));
};

template <typename Vector, typename T>
inline Vector load(const T* from) {
  Vector loaded;
  __builtin_memcpy(&loaded, from, sizeof(Vector));
  return loaded;
}

template <typename Vector, typename T>
inline void store(T* to, const Vector& vector) {
  __builtin_memcpy(to, &vector, sizeof(Vector));
}

// The taps first ... last - 1 of one dimension that lie inside the map; tap 0 is at `start`.
struct Range {
  Range(int out, int size, int kernel, int stride, int pad)
      : start(out * stride - pad),
        first(start < 0 ? -start : 0),
        last(start + kernel > size ? size - start : kernel),
        padded(start + kernel > size + pad ? size + pad - start : kernel) {}
  int start, first, last, padded;  // padded: taps that are not beyond the padding
};

Range rows_of(const PoolShape& s, int row) { return {row, s.h, s.kh, s.sh, s.ph}; }
Range columns_of(const PoolShape& s, int column) { return {column, s.w, s.kw, s.sw, s.pw}; }

float divisor(const PoolShape& s, const Range& rows, const Range& columns) {
  return static_cast<float>(s.count_pad ? rows.padded * columns.padded
                                        : (rows.last - rows.first) * (columns.last - columns.first));
}

std::ptrdiff_t offset(const PoolShape& s, int row, int column) {
  return (static_cast<std::ptrdiff_t>(row) * s.w + column) * s.channels;
}

template <int Lanes>
void average_channels(const PoolShape& s, const float* x, int row, int first, int last, float* out) {
  using Floats = typename Vectors<Lanes>::Floats;
  const Range rows = rows_of(s, row);
  for (int ow = 0; ow < s.ow; ++ow, out += s.channels) {
    const Range columns = columns_of(s, ow);
    const float count = divisor(s, rows, columns);
    for (int c = first; c < last; c += Lanes) {
      Floats sum = {};
      for (int i = rows.first; i < rows.last; ++i) {
        const float* from = x + offset(s, rows.start + i, columns.start + columns.first) + c;
        for (int j = columns.first; j < columns.last; ++j, from += s.channels) sum += load<Floats>(from);
      }
      store(out + c, sum / count);
    }
  }
}

// The output rows whose windows have input row `row`.
struct Cover {
  Cover(const PoolShape& s, int row)
      : first(row + s.ph < s.kh ? 0 : (row + s.ph - s.kh) / s.sh + 1), last((row + s.ph) / s.sh) {
    if (last >= s.oh) last = s.oh - 1;
  }
  int first, last;  // both included
};

template <int Lanes>
void spread_channels(const PoolShape& s, const float* grad, int row, int first, int last, float* grad_x) {
  using Floats = typename Vectors<Lanes>::Floats;
  const Cover cover(s, row);
  for (int oh = cover.first; oh <= cover.last; ++oh) {
    const Range rows = rows_of(s, oh);
    const float* from = grad + static_cast<std::ptrdiff_t>(oh) * s.ow * s.channels;
    for (int ow = 0; ow < s.ow; ++ow, from += s.channels) {
      const Range columns = columns_of(s, ow);
      const float count = divisor(s, rows, columns);
      for (int c = first; c < last; c += Lanes) {
        const Floats share = load<Floats>(from + c) / count;
        float* to = grad_x + offset(s, 0, columns.start + columns.first) + c;
        for (int j = columns.first; j < columns.last; ++j, to += s.channels) store(to, load<Floats>(to) + share);
      }
    }
  }
}

template <int Lanes>
void largest_channels(const PoolShape& s, const float* x, const NormForm& form, int row, int first, int last,
                      float* out, std::uint8_t* taps) {
  using Floats = typename Vectors<Lanes>::Floats;
  using Ints = typename Vectors<Lanes>::Ints;
  const Range rows = rows_of(s, row);
  for (int ow = 0; ow < s.ow; ++ow, out += s.channels, taps += s.channels) {
    const Range columns = columns_of(s, ow);
    for (int c = first; c < last; c += Lanes) {
      const Floats mean = load<Floats>(form.mean + c), scale = load<Floats>(form.scale + c);
      const Floats shift = load<Floats>(form.shift + c);
      Floats best = Floats{} - __builtin_inff();
      Ints from = Ints{} + (rows.first * s.kw + columns.first);
      for (int i = rows.first; i < rows.last; ++i) {
        const float* at = x + offset(s, rows.start + i, columns.start + columns.first) + c;
        for (int j = columns.first; j < columns.last; ++j, at += s.channels) {
          const Floats z = scale * (load<Floats>(at) - mean) + shift;
          const Ints take = (z > best) | (z != z);
          best = take ? z : best;
          from = take ? Ints{} + (i * s.kw + j) : from;
        }
      }
      store(out + c, best);
      store(taps + c, __builtin_convertvector(from, typename Vectors<Lanes>::Bytes));
    }
  }
}

void clear_row(const PoolShape& s, float* row) {
  __builtin_memset(row, 0, static_cast<std::size_t>(s.w) * static_cast<std::size_t>(s.channels) * sizeof(float));
}

template <int N>
struct Lanes {
  static constexpr int count = N;
};

// body(lanes, first, last) over all channels, in the widest vectors that they fill.
template <int N, typename Body>
void in_vectors(int channels, const Body& body, int first = 0) {
  const int last = channels - (channels - first) % N;
  if (first < last) body(Lanes<N>{}, first, last);
  if constexpr (N > 1) in_vectors<N / 2>(channels, body, last);
}

void average(const PoolShape& s, const float* x, int row, float* out) {
  in_vectors<LANES>(s.channels, [&](auto lanes, int first, int last) {
    average_channels<decltype(lanes)::count>(s, x, row, first, last, out);
  });
}

void spread(const PoolShape& s, const float* grad, int row, float* grad_x) {
  clear_row(s, grad_x);
  in_vectors<LANES>(s.channels, [&](auto lanes, int first, int last) {
    spread_channels<decltype(lanes)::count>(s, grad, row, first, last, grad_x);
  });
}

void largest(const PoolShape& s, const float* x, const NormForm& form, int row, float* out, std::uint8_t* taps) {
  in_vectors<LANES>(s.channels, [&](auto lanes, int first, int last) {
    largest_channels<decltype(lanes)::count>(s, x, form, row, first, last, out, taps);
  });
}

// Plain loops: GCC 12 takes bytes into wider vectors one by one.
void route(const PoolShape& s, const float* __restrict grad, const std::uint8_t* __restrict taps, int row,
           float* __restrict grad_z) {
  clear_row(s, grad_z);
  const Cover cover(s, row);
  for (int oh = cover.first; oh <= cover.last; ++oh) {
    const int i = row - rows_of(s, oh).start;
    std::ptrdiff_t at = static_cast<std::ptrdiff_t>(oh) * s.ow * s.channels;
    for (int ow = 0; ow < s.ow; ++ow, at += s.channels) {
      const Range columns = columns_of(s, ow);
      const float* __restrict value = grad + at;
      const std::uint8_t* __restrict from = taps + at;
      float* __restrict to = grad_z + offset(s, 0, columns.start + columns.first);
      for (int j = columns.first; j < columns.last; ++j, to += s.channels) {
        const int tap = i * s.kw + j;
        for (int c = 0; c < s.channels; ++c) to[c] += from[c] == tap ? value[c] : 0.0F;
      }
    }
  }
}
