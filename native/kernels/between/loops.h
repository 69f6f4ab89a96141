// The loops of between.h over an ISA's vectors of channels. Included by each ISA's file inside its unnamed namespace,
// so that no two share a copy. `Isa` has what the loops are made of:
//   Vector, of LANES floats: load, store, splat, larger(value, than), add, divide                            for pools
//   SIGNS floats at a time: signs(in, bound), a bit for each; bound is null for 0                            for signs
//   Wide, of WIDE floats, as finish takes them: load_some(from, count), where count may be WIDE or more     pointwise

struct Columns {
  int first, last;
};

inline Columns inside(const PoolRow& row, int x) {
  const int start = x * row.stride - row.left, end = start + row.kw;
  return {start > 0 ? start : 0, end < row.columns ? end : row.columns};
}

inline float divisor(const PoolRow& row, Columns columns) {
  return row.divisor != 0 ? row.divisor : static_cast<float>(row.rows * (columns.last - columns.first));
}

template <typename Isa, bool IsMax, int Vectors>
inline void pool(const PoolRow& row, int x, int c) {
  const Columns columns = inside(row, x);
  typename Isa::Vector acc[Vectors];
  for (int v = 0; v < Vectors; ++v) acc[v] = Isa::splat(IsMax ? -__builtin_inff() : 0.0F);
  for (int r = 0; r < row.rows; ++r) {
    const float* from = row.in + r * row.row_stride + columns.first * row.in_stride + c;
    for (int k = columns.first; k < columns.last; ++k, from += row.in_stride) {
      for (int v = 0; v < Vectors; ++v) {
        const typename Isa::Vector value = Isa::load(from + v * Isa::LANES);
        acc[v] = IsMax ? Isa::larger(value, acc[v]) : Isa::add(acc[v], value);
      }
    }
  }
  if (!IsMax) {
    const typename Isa::Vector count = Isa::splat(divisor(row, columns));
    for (int v = 0; v < Vectors; ++v) acc[v] = Isa::divide(acc[v], count);
  }
  float* to = row.out + x * row.out_stride + c;
  for (int v = 0; v < Vectors; ++v) Isa::store(to + v * Isa::LANES, acc[v]);
  for (int v = 0; row.again != 0 && v < Vectors; ++v) Isa::store(to + row.again + v * Isa::LANES, acc[v]);
}

template <bool IsMax>
inline void pool_one(const PoolRow& row, int x, int c) {
  const Columns columns = inside(row, x);
  float acc = IsMax ? -__builtin_inff() : 0.0F;
  for (int r = 0; r < row.rows; ++r) {
    for (int k = columns.first; k < columns.last; ++k) {
      const float value = row.in[r * row.row_stride + k * row.in_stride + c];
      acc = IsMax ? (value > acc ? value : acc) : acc + value;
    }
  }
  float* to = row.out + x * row.out_stride + c;
  to[row.again] = to[0] = IsMax ? acc : acc / divisor(row, columns);
}

// Four vectors of channels at a time hide the latency of additions. Channels that do not fill a vector are done one by
// one: masked stores cost AMD's cores dozens of operations each, and other ISAs have none.
template <typename Isa, bool IsMax>
void pool_row(const PoolRow& row) {
  constexpr int BLOCK = 4;
  for (int x = 0; x < row.width; ++x) {
    int c = 0;
    for (; c + BLOCK * Isa::LANES <= row.channels; c += BLOCK * Isa::LANES) pool<Isa, IsMax, BLOCK>(row, x, c);
    for (; c + Isa::LANES <= row.channels; c += Isa::LANES) pool<Isa, IsMax, 1>(row, x, c);
    for (; c < row.channels; ++c) pool_one<IsMax>(row, x, c);
  }
}

// Up to 64 signs.
template <typename Isa>
inline std::uint64_t signs(const float* in, const float* threshold, int count) {
  std::uint64_t word = 0;
  int c = 0;
  for (; c + Isa::SIGNS <= count; c += Isa::SIGNS) {
    const std::uint64_t some = Isa::signs(in + c, threshold != nullptr ? threshold + c : nullptr);
    word |= some << c;
  }
  for (; c < count; ++c) word |= static_cast<std::uint64_t>(in[c] > (threshold != nullptr ? threshold[c] : 0)) << c;
  return word;
}

template <typename Isa>
void sign_row(const SignRow& row) {
  for (int x = 0; x < row.width; ++x) {
    const float* in = row.in + x * row.in_stride;
    std::uint64_t* codes = row.codes + x * row.codes_stride;
    for (int c = 0; c < row.channels; c += 64) {
      const int count = row.channels - c < 64 ? row.channels - c : 64;
      *codes++ =
          row.threshold != nullptr ? signs<Isa>(in + c, row.threshold + c, count) : signs<Isa>(in + c, nullptr, count);
    }
  }
}

template <typename Isa, int Positions>
void pointwise(const PointwiseRow& row, int first, int x) {
  const float* in = row.in + x * row.in_stride + first;
  typename Isa::Wide y[Positions];
#pragma GCC unroll 8
  for (int p = 0; p < Positions; ++p) y[p] = Isa::load_some(in + p * row.in_stride, row.channels - first);
  finish(row.end, row.channels, first, static_cast<std::size_t>(x), y);
}

// Some positions at a time.
template <typename Isa, int Some>
void pointwise_row(const PointwiseRow& row) {
  int x = 0;
  for (; x + Some <= row.width; x += Some) {
    for (int c = 0; c < row.channels; c += Isa::WIDE) pointwise<Isa, Some>(row, c, x);
  }
  for (; x < row.width; ++x) {
    for (int c = 0; c < row.channels; c += Isa::WIDE) pointwise<Isa, 1>(row, c, x);
  }
}

// From position x on, one by one.
inline void interleave_rest(const InterleaveRow& row, int x) {
  for (; x < row.width; ++x) {
    for (int c = 0; c < row.channels; ++c)
      row.out[static_cast<std::size_t>(x) * row.channels + c] = row.in[c * row.plane_stride + x];
  }
}
