// For any CPU: plain loops over channels that the compiler turns into the vectors of its baseline (SSE2, NEON).
// Where there is no fused multiply-add, std::fma is a slow call, so it is a * b + c here.
#include "kernels/conv_row.h"

namespace ftbnn {

namespace {

constexpr int FLOAT_TILE = 4;  // positions that share a pass over the weights
constexpr int BLOCK = 30;      // words whose counts fit into bytes, in groups of three: 10 x 24 < 256

// 1 << o as a table: SSE2 has no shift by a different count in each lane.
struct Bits {
  std::uint32_t of[PANEL] = {};
  constexpr Bits() {
    for (int o = 0; o < PANEL; ++o) of[o] = std::uint32_t{1} << o;
  }
};
constexpr Bits bits;

template <bool Partial>
inline void finish(const Epilogue& end, std::size_t x, int count, const float* acc) {
  const int channels = Partial ? count : PANEL;
  float y[PANEL];
  for (int o = 0; o < channels; ++o) y[o] = end.scale[o] * acc[o] + end.shift[o];
  if (end.shortcut != nullptr) {
    const float* shortcut = end.shortcut + x * end.shortcut_stride;
    for (int o = 0; o < channels; ++o) y[o] += shortcut[o];
  }
  if (end.act == Act::relu) {
    for (int o = 0; o < channels; ++o) y[o] = y[o] > 0 ? y[o] : 0;
  } else if (end.act == Act::prelu) {
    for (int o = 0; o < channels; ++o) y[o] = y[o] > 0 ? y[o] : end.left[o] * y[o];
  } else if (end.act == Act::fprelu) {
    for (int o = 0; o < channels; ++o) y[o] *= y[o] > 0 ? end.right[o] : end.left[o];
  }
  if (end.out != nullptr) {
    float* out = end.out + x * end.out_stride;
    for (int o = 0; o < channels; ++o) out[o] = y[o];
  }
  if (end.codes != nullptr) {
    std::uint32_t signs = 0;
    for (int o = 0; o < channels; ++o) signs |= y[o] > 0 ? bits.of[o] : 0;
    end.codes[x * end.codes_stride] = signs;
  }
}

inline void finish(const Epilogue& end, std::size_t x, int channels, const float* acc) {
  channels == PANEL ? finish<false>(end, x, PANEL, acc) : finish<true>(end, x, channels, acc);
}

// Four products at a time, added in order, so that the sums travel to memory and back only once for them.
template <int Positions>
void conv_tile(const ConvRow& row, int x) {
  const std::size_t step = static_cast<std::size_t>(row.stride) * row.channels_in;
  const std::size_t run = static_cast<std::size_t>(row.kw) * row.channels_in;
  float acc[Positions][PANEL] = {};
  const float* w = row.weights;
  for (int ky = 0; ky < row.kh; ++ky) {
    const float* in = row.in + ky * row.row_stride + x * step;
    std::size_t k = 0;
    for (; k + 4 <= run; k += 4, w += 4 * PANEL) {
      const float *w1 = w + PANEL, *w2 = w1 + PANEL, *w3 = w2 + PANEL;
      for (int p = 0; p < Positions; ++p) {
        const float* at = in + p * step + k;
        const float a0 = at[0], a1 = at[1], a2 = at[2], a3 = at[3];
        for (int o = 0; o < PANEL; ++o) acc[p][o] = acc[p][o] + a0 * w[o] + a1 * w1[o] + a2 * w2[o] + a3 * w3[o];
      }
    }
    for (; k < run; ++k, w += PANEL) {
      for (int p = 0; p < Positions; ++p) {
        const float value = in[p * step + k];
        for (int o = 0; o < PANEL; ++o) acc[p][o] += value * w[o];
      }
    }
  }
  for (int p = 0; p < Positions; ++p) finish(row.end, x + p, row.channels, acc[p]);
}

// Bits of each byte's nibbles, 0 to 4 each: the first two steps of the usual parallel count.
inline std::uint64_t nibbles(std::uint64_t word) {
  constexpr std::uint64_t pairs = 0x3333333333333333;
  word -= word >> 1 & 0x5555555555555555;
  return (word & pairs) + (word >> 2 & pairs);
}

template <bool ZeroOne>
inline std::uint64_t hits(std::uint64_t a, std::uint64_t b) {
  return ZeroOne ? a & b : a ^ b;
}

// Three words of every channel: a full adder makes two of them (worth 1 and 2), which saves a third of the counting.
template <bool ZeroOne>
inline void count(const std::uint64_t* in, const std::uint64_t* w, std::uint64_t* bytes) {
  constexpr std::uint64_t low = 0x0f0f0f0f0f0f0f0f;
  const std::uint64_t in0 = in[0], in1 = in[1], in2 = in[2];
  for (int o = 0; o < PANEL; ++o) {
    const std::uint64_t a = hits<ZeroOne>(in0, w[o]), b = hits<ZeroOne>(in1, w[PANEL + o]);
    const std::uint64_t c = hits<ZeroOne>(in2, w[2 * PANEL + o]);
    const std::uint64_t one = a ^ b ^ c, two = (a & b) | ((a ^ b) & c);
    const std::uint64_t twos = nibbles(two), sum = nibbles(one) + twos + twos;
    bytes[o] += (sum & low) + (sum >> 4 & low);
  }
}

template <bool ZeroOne>
inline void count_one(std::uint64_t in, const std::uint64_t* w, std::uint64_t* bytes) {
  constexpr std::uint64_t low = 0x0f0f0f0f0f0f0f0f;
  for (int o = 0; o < PANEL; ++o) {
    const std::uint64_t sum = nibbles(hits<ZeroOne>(in, w[o]));
    bytes[o] += (sum & low) + (sum >> 4 & low);
  }
}

template <bool ZeroOne>
void bconv_row(const BConvRow& row) {
  constexpr std::uint64_t even = 0x00ff00ff00ff00ff;
  const int run = row.kw * row.words;
  for (int x = 0; x < row.width; ++x) {
    std::int32_t pop[PANEL] = {};
    std::uint64_t in[BLOCK], bytes[PANEL] = {};
    int filled = 0;
    const std::uint64_t* w = row.weights;
    const auto flush = [&] {
      int k = 0;
      for (; k + 3 <= filled; k += 3, w += 3 * PANEL) count<ZeroOne>(in + k, w, bytes);
      for (; k < filled; ++k, w += PANEL) count_one<ZeroOne>(in[k], w, bytes);
      for (int o = 0; o < PANEL; ++o) {
        std::uint64_t sum = (bytes[o] & even) + (bytes[o] >> 8 & even);
        sum += sum >> 32;
        sum += sum >> 16;
        pop[o] += static_cast<std::int32_t>(sum & 0xffff);
        bytes[o] = 0;
      }
      filled = 0;
    };
    for (int ky = 0; ky < row.kh; ++ky) {
      const std::uint64_t* line = row.in + ky * row.row_stride + static_cast<std::size_t>(x) * row.stride * row.words;
      for (int k = 0; k < run; ++k) {
        in[filled++] = line[k];
        if (filled == BLOCK) flush();
      }
    }
    flush();
    float acc[PANEL];
    if (ZeroOne) {
      const std::int32_t ones = row.ones[x];
      for (int o = 0; o < PANEL; ++o) acc[o] = static_cast<float>(2 * pop[o] - ones);
    } else {
      const std::int32_t* base = row.base + row.border[x] * PANEL;
      for (int o = 0; o < PANEL; ++o) acc[o] = static_cast<float>(base[o] - 2 * pop[o]);
    }
    finish(row.end, x, row.channels, acc);
  }
}

}  // namespace

void conv_row__portable(const ConvRow& row) {
  int x = 0;
  for (; x + FLOAT_TILE <= row.width; x += FLOAT_TILE) conv_tile<FLOAT_TILE>(row, x);
  for (; x < row.width; ++x) conv_tile<1>(row, x);
}

void bconv_row__portable(const BConvRow& row) { row.zero_one ? bconv_row<true>(row) : bconv_row<false>(row); }

}  // namespace ftbnn
