// The tile kernel of bconv_rows.h, written once for Tiles and EmulatedTiles.
//
// Output positions are numbered through all rows, `plane_columns` to a row, and taken 32 at a time: 2 x 2 tiles of
// 16 positions x 16 channels, one tile load a product. Sums go to memory and are finished while the next 32 positions
// are multiplied; the panel's weights become bytes, some steps ahead, during the first 32. Tile products leave the
// vector units idle, so both cost little.
#pragma once

#include <immintrin.h>

#include "base/tiles.h"
#include "kernels/bconv_rows.h"

namespace ftbnn {

namespace {

constexpr int LANES = 16;          // floats of a vector, columns of a tile of sums
constexpr std::size_t BLOCK = 32;  // positions
constexpr std::size_t AHEAD = 4;   // steps: stores of weights have left the core's buffers when a tile loads them
constexpr std::size_t STEP_BYTES = PANEL * 64, TILE_SIZE = TILE_ROWS * TILE_BYTES;

// One step of 16 output channels: bit 4 r + j of channel n's word to byte j of dword n of row r.
inline void expand_weights(const std::uint64_t* words, std::int8_t* to) {
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i a = _mm512_load_si512(words), b = _mm512_load_si512(words + 8);
  const __m512i low = _mm512_permutex2var_epi32(a, even, b);
  const __m512i high = _mm512_permutex2var_epi32(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b);
  const __m512i plus = _mm512_set1_epi8(1), minus = _mm512_set1_epi8(-1);
  const __m512i dwords = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0);
#pragma GCC unroll 8
  for (int byte = 0; byte < 8; ++byte) {
    const __m512i pick = _mm512_add_epi8(dwords, _mm512_set1_epi8(static_cast<char>(byte % 4)));
    const __m512i four = _mm512_shuffle_epi8(byte < 4 ? low : high, pick);
    const __mmask64 first = _mm512_test_epi8_mask(four, _mm512_set1_epi32(0x08040201));
    const __mmask64 second = _mm512_test_epi8_mask(four, _mm512_set1_epi32(static_cast<int>(0x80402010)));
    _mm512_store_si512(to + 128 * byte, _mm512_mask_blend_epi8(first, minus, plus));
    _mm512_store_si512(to + 128 * byte + 64, _mm512_mask_blend_epi8(second, minus, plus));
  }
}

// Positions whose sums lie in memory and wait for the epilogue. They come in order, those past a row's end among them.
class Waiting {
 public:
  explicit Waiting(const BConvRows& rows)
      : rows_(rows),
        end_(rows.end),
        columns_(plane_columns(rows.image)),
        width_(static_cast<std::size_t>(rows.width)) {}

  std::size_t count() const { return count_; }

  void set(const std::int32_t* sums, std::size_t count) {
    sums_ = sums;
    count_ = count;
  }

  void finish(std::size_t most) {
    const std::size_t count = most < count_ ? most : count_;
    count_ -= count;
    rows_.channels == PANEL ? choose<true>(count) : choose<false>(count);
  }

 private:
  template <bool IsFull>
  void choose(std::size_t count) {
    switch (end_.act) {
      case Act::none:
        return walk<Act::none, IsFull>(count);
      case Act::relu:
        return walk<Act::relu, IsFull>(count);
      case Act::prelu:
        return walk<Act::prelu, IsFull>(count);
      case Act::fprelu:
        return walk<Act::fprelu, IsFull>(count);
    }
  }

  template <Act A, bool IsFull>
  void walk(std::size_t count) {
    while (count > 0) {
      if (x_ == columns_) {
        x_ = 0;
        if (end_.shortcut != nullptr) end_.shortcut += rows_.shortcut_row;
        if (end_.out != nullptr) end_.out += rows_.out_row;
        if (end_.codes != nullptr) end_.codes += rows_.codes_row;
      }
      const std::size_t stop = x_ + count < columns_ ? x_ + count : columns_;
      if (x_ < width_) run<A, IsFull>((stop < width_ ? stop : width_) - x_);
      count -= stop - x_;
      sums_ += (stop - x_) * PANEL;
      x_ = stop;
    }
  }

  // Positions of one row. The arithmetic is that of conv_row__avx512.cc, so the floats are the same.
  template <Act A, bool IsFull>
  void run(std::size_t count) const {
    const __m512 zero = _mm512_setzero_ps();
    const std::uint32_t wanted = IsFull ? ~0U : (1U << rows_.channels) - 1;
    const __mmask16 lanes[2] = {static_cast<__mmask16>(wanted), static_cast<__mmask16>(wanted >> LANES)};
    __m512 scale[2], shift[2], left[2], right[2];
    for (int half = 0; half < 2; ++half) {
      scale[half] = _mm512_loadu_ps(end_.scale + half * LANES);
      shift[half] = _mm512_loadu_ps(end_.shift + half * LANES);
      if constexpr (A == Act::prelu || A == Act::fprelu) left[half] = _mm512_loadu_ps(end_.left + half * LANES);
      if constexpr (A == Act::fprelu) right[half] = _mm512_loadu_ps(end_.right + half * LANES);
    }
    const std::int32_t* sums = sums_;
    const float* shortcut = end_.shortcut != nullptr ? end_.shortcut + x_ * end_.shortcut_stride : nullptr;
    float* out = end_.out != nullptr ? end_.out + x_ * end_.out_stride : nullptr;
    std::uint32_t* codes = end_.codes != nullptr ? end_.codes + x_ * end_.codes_stride : nullptr;
    for (; count > 0; --count, sums += PANEL) {
      __m512 y[2];
      for (int half = 0; half < 2; ++half) {
        const __m512 sum = _mm512_maskz_cvtepi32_ps(0xffff, _mm512_load_si512(sums + half * LANES));
        y[half] = _mm512_fmadd_ps(scale[half], sum, shift[half]);
      }
      if (shortcut != nullptr) {
        for (int half = 0; half < 2; ++half) {
          const float* from = shortcut + half * LANES;
          y[half] = _mm512_add_ps(y[half], IsFull ? _mm512_loadu_ps(from) : _mm512_maskz_loadu_ps(lanes[half], from));
        }
        shortcut += end_.shortcut_stride;
      }
      for (int half = 0; half < 2; ++half) {
        if constexpr (A == Act::relu) {
          y[half] = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y[half], zero, _CMP_GT_OQ), y[half]);
        } else if constexpr (A == Act::prelu) {
          y[half] = _mm512_mask_mul_ps(y[half], _mm512_cmp_ps_mask(y[half], zero, _CMP_NGT_UQ), y[half], left[half]);
        } else if constexpr (A == Act::fprelu) {
          const __mmask16 positive = _mm512_cmp_ps_mask(y[half], zero, _CMP_GT_OQ);
          y[half] = _mm512_mul_ps(y[half], _mm512_mask_blend_ps(positive, left[half], right[half]));
        }
      }
      if (out != nullptr) {
        for (int half = 0; half < 2; ++half) {
          if constexpr (IsFull) {
            _mm512_storeu_ps(out + half * LANES, y[half]);
          } else {
            _mm512_mask_storeu_ps(out + half * LANES, lanes[half], y[half]);
          }
        }
        out += end_.out_stride;
      }
      if (codes != nullptr) {
        const __mmask16 low = _mm512_mask_cmp_ps_mask(lanes[0], y[0], zero, _CMP_GT_OQ);
        const __mmask16 high = _mm512_mask_cmp_ps_mask(lanes[1], y[1], zero, _CMP_GT_OQ);
        *codes = _mm512_kunpackw(high, low);
        codes += end_.codes_stride;
      }
    }
  }

  const BConvRows& rows_;
  Epilogue end_;
  std::size_t columns_, width_, x_ = 0, count_ = 0;
  const std::int32_t* sums_ = nullptr;
};

// The convolution of one panel, cut into blocks of positions.
template <typename Registers>
class Panel {
 public:
  explicit Panel(const BConvRows& rows)
      : rows_(rows),
        steps_(static_cast<std::size_t>(rows.kh) * static_cast<std::size_t>(rows.kw) *
               static_cast<std::size_t>(rows.image.words)),
        weights_(static_cast<std::int8_t*>(rows.scratch)),
        sums_(reinterpret_cast<std::int32_t*>(weights_ + steps_ * STEP_BYTES)),
        offsets_(reinterpret_cast<std::size_t*>(sums_ + BLOCK * PANEL)),
        waiting_(rows) {
    const CodeImage& image = rows.image;
    std::size_t* offset = offsets_;
    for (int ky = 0; ky < rows.kh; ++ky) {
      for (int kx = 0; kx < rows.kw; ++kx) {
        const std::size_t plane = static_cast<std::size_t>(ky % image.stride_y * image.stride_x + kx % image.stride_x);
        const std::size_t line = plane * plane_lines(image) +
                                 static_cast<std::size_t>(ky / image.stride_y) * plane_columns(image) +
                                 static_cast<std::size_t>(kx / image.stride_x);
        for (int k = 0; k < image.words; ++k) {
          *offset++ = (static_cast<std::size_t>(k) * word_lines(image) + line) * LINE;
        }
      }
    }
  }

  void run() {
    rows_.channels > LANES ? run<2>() : run<1>();
    waiting_.finish(BLOCK);
  }

 private:
  template <int Halves>
  void run() {
    const std::size_t columns = plane_columns(rows_.image);
    const std::size_t positions =
        static_cast<std::size_t>(rows_.last - rows_.first - 1) * columns + static_cast<std::size_t>(rows_.width);
    const std::int8_t* codes = rows_.image.bytes + static_cast<std::size_t>(rows_.first) * columns * LINE;
    for (std::size_t at = 0; at < positions; at += BLOCK, codes += BLOCK * LINE) {
      const std::size_t count = positions - at < BLOCK ? positions - at : BLOCK;
      if (at == 0) {
        count > TILE_ROWS ? multiply<2, Halves, true>(codes) : multiply<1, Halves, true>(codes);
      } else {
        count > TILE_ROWS ? multiply<2, Halves, false>(codes) : multiply<1, Halves, false>(codes);
      }
      waiting_.set(sums_, count);
    }
  }

  template <int Halves>
  void expand(std::size_t step) {
    for (int half = 0; half < Halves; ++half) {
      expand_weights(rows_.weights + step * PANEL + static_cast<std::size_t>(half * LANES),
                     weights_ + step * STEP_BYTES + static_cast<std::size_t>(half) * TILE_SIZE);
    }
  }

  // Tiles 0 to 3 are sums [positions][channels], 4 and 5 codes, 6 and 7 weights.
  template <int Rows, int Halves, bool IsFirst>
  void multiply(const std::int8_t* codes) {
    // Positions that are finished at a time, and steps from one time to the next: none is left when sums are stored.
    const std::size_t share = steps_ >= 4 ? BLOCK / 4 : steps_ >= 2 ? BLOCK / 2 : BLOCK;
    const std::size_t pause = steps_ * share / BLOCK;
    std::size_t next = pause;
    Registers::template zero<0>();
    if constexpr (Halves == 2) Registers::template zero<1>();
    if constexpr (Rows == 2) Registers::template zero<2>();
    if constexpr (Rows == 2 && Halves == 2) Registers::template zero<3>();
    if constexpr (IsFirst) {
      for (std::size_t step = 0; step < AHEAD && step < steps_; ++step) expand<Halves>(step);
    }
    for (std::size_t step = 0; step < steps_; ++step) {
      if constexpr (IsFirst) {
        if (step + AHEAD < steps_) expand<Halves>(step + AHEAD);
      }
      const std::int8_t* in = codes + offsets_[step];
      const std::int8_t* weights = weights_ + step * STEP_BYTES;
      Registers::template load<4>(in, LINE);
      Registers::template load<6>(weights, LINE);
      Registers::template dot_i8<0, 4, 6>();
      if constexpr (Rows == 2) {
        Registers::template load<5>(in + TILE_SIZE, LINE);
        Registers::template dot_i8<2, 5, 6>();
      }
      if constexpr (Halves == 2) {
        Registers::template load<7>(weights + TILE_SIZE, LINE);
        Registers::template dot_i8<1, 4, 7>();
        if constexpr (Rows == 2) Registers::template dot_i8<3, 5, 7>();
      }
      if (step + 1 == next) {
        if (waiting_.count() > 0) waiting_.finish(share);
        next += pause;
      }
    }
    constexpr std::size_t stride = PANEL * sizeof(std::int32_t);
    Registers::template store<0>(sums_, stride);
    if constexpr (Halves == 2) Registers::template store<1>(sums_ + LANES, stride);
    if constexpr (Rows == 2) Registers::template store<2>(sums_ + TILE_ROWS * PANEL, stride);
    if constexpr (Rows == 2 && Halves == 2) Registers::template store<3>(sums_ + TILE_ROWS * PANEL + LANES, stride);
  }

  const BConvRows& rows_;
  std::size_t steps_;
  std::int8_t* weights_;  // [step][half][16 rows of 4 channels][16 output channels][4]
  std::int32_t* sums_;    // [position][PANEL]
  std::size_t* offsets_;  // of a step's first code
  Waiting waiting_;
};

// Other code of the thread may use tiles too, so they are taken and given back in every call.
template <typename Registers>
void bconv_rows(const BConvRows& rows) {
  static constexpr TileConfig config = full_tiles();
  Registers::configure(config);
  Panel<Registers>(rows).run();
  Registers::release();
}

}  // namespace

}  // namespace ftbnn
