// The tile kernel of tiles.h, written once for Tiles and EmulatedTiles.
//
// Output positions are numbered through all rows, `columns` to a row, and taken 32 at a time: 2 x 2 tiles of
// 16 positions x 16 channels, one tile load a product. Sums go to memory and are finished while the next 32 positions
// are multiplied; the panel's weights become bytes, some steps ahead, during the first 32. Tile products leave the
// vector units idle, so both cost little.
#pragma once

#include "base/tiles.h"
#include "kernels/bconv/tiles.h"
#include "kernels/epilogue/epilogue__avx512.h"

namespace ftbnn {

namespace {

static_assert(LANES == 16, "columns of a tile of sums");
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

// Weights of what follows a run, so that it counts nothing.
inline void clear_past(std::uint32_t bytes, std::int8_t* to) {
  __mmask64 keep = 0x1111111111111111 * ((1U << bytes % 4) - 1);
  for (std::uint32_t row = bytes / 4; row < TILE_ROWS; ++row, keep = 0) {
    std::int8_t* line = to + row * LINE;
    _mm512_store_si512(line, _mm512_maskz_loadu_epi8(keep, line));
  }
}

// Bits of one row to bytes.
inline void expand(const ExpandRow& task) {
  const __mmask64 valid = task.channels == 64 ? ~__mmask64{0} : (__mmask64{1} << task.channels) - 1;
  const __m512i on = _mm512_maskz_set1_epi8(valid, 1);
  const __m512i off = task.zero_one ? _mm512_setzero_si512() : _mm512_maskz_set1_epi8(valid, -1);
  for (int phase = 0; phase < task.stride_x; ++phase) {
    std::int8_t* to = task.to + static_cast<std::size_t>(phase) * task.phase;
    for (int x = phase; x < task.columns; x += task.stride_x, to += task.pitch) {
      const int column = x - task.left;
      __m512i line = _mm512_setzero_si512();
      if (task.codes != nullptr && column >= 0 && column < task.width) {
        line = _mm512_mask_blend_epi8(task.codes[static_cast<std::size_t>(column) * task.codes_stride], off, on);
      }
      if (task.is_lines) {
        _mm512_store_si512(to, line);
      } else {  // what is behind may be another thread's
        _mm512_mask_storeu_epi8(to, valid, line);
      }
    }
  }
}

// Positions whose sums lie in memory and wait for the epilogue. They come in order, those past a row's end among them.
class Waiting {
 public:
  explicit Waiting(const TileRows& rows)
      : channels_(rows.channels),
        end_(rows.end),
        columns_(rows.columns),
        width_(static_cast<std::size_t>(rows.width)) {}

  std::size_t count() const { return count_; }

  void set(const std::int32_t* sums, std::size_t count) {
    sums_ = sums;
    count_ = count;
  }

  void finish(std::size_t most) {
    std::size_t count = most < count_ ? most : count_;
    count_ -= count;
    while (count > 0) {
      if (x_ == columns_) {
        x_ = 0;
        next_row(end_);
      }
      const std::size_t stop = x_ + count < columns_ ? x_ + count : columns_;
      finish_row(stop < width_ ? stop : width_);
      count -= stop - x_;
      sums_ += (stop - x_) * PANEL;
      x_ = stop;
    }
  }

 private:
  // Positions of one row, up to `stop`.
  void finish_row(std::size_t stop) const {
    constexpr int some = 4;
    std::size_t x = x_;
    for (; x + some <= stop; x += some) finish_some<some>(x);
    for (; x < stop; ++x) finish_some<1>(x);
  }

  template <int Positions>
  void finish_some(std::size_t x) const {
    for (int first = 0; first < channels_; first += LANES) {
      const std::int32_t* sums = sums_ + (x - x_) * PANEL + first;
      __m512 y[Positions];
      for (int p = 0; p < Positions; ++p) {
        y[p] = _mm512_maskz_cvtepi32_ps(0xffff, _mm512_load_si512(sums + p * PANEL));
      }
      ftbnn::finish(end_, channels_, first, x, y);
    }
  }

  int channels_;
  Epilogue end_;
  std::size_t columns_, width_, x_ = 0, count_ = 0;
  const std::int32_t* sums_ = nullptr;
};

// The convolution of one panel, cut into blocks of positions.
template <typename Registers>
class PanelProduct {
 public:
  explicit PanelProduct(const TileRows& rows)
      : rows_(rows),
        steps_(rows.step_count),
        weights_(static_cast<std::int8_t*>(rows.scratch)),
        sums_(reinterpret_cast<std::int32_t*>(weights_ + steps_ * STEP_BYTES)),
        waiting_(rows) {}

  void run() {
    rows_.channels > LANES ? run<2>() : run<1>();
    waiting_.finish(BLOCK);
  }

 private:
  template <int Halves>
  void run() {
    const std::size_t first = static_cast<std::size_t>(rows_.first) * rows_.columns;
    const std::size_t end =
        static_cast<std::size_t>(rows_.last - 1) * rows_.columns + static_cast<std::size_t>(rows_.width);
    for (std::size_t at = first; at < end; at += BLOCK) {
      const std::size_t count = end - at < BLOCK ? end - at : BLOCK;
      if (at == first && !rows_.has_bytes) {
        count > TILE_ROWS ? multiply<2, Halves, true>(at) : multiply<1, Halves, true>(at);
      } else {
        count > TILE_ROWS ? multiply<2, Halves, false>(at) : multiply<1, Halves, false>(at);
      }
      waiting_.set(sums_, count);
    }
  }

  template <int Halves>
  void expand(std::size_t step) {
    for (int half = 0; half < Halves; ++half) {
      std::int8_t* to = weights_ + step * STEP_BYTES + static_cast<std::size_t>(half) * TILE_SIZE;
      expand_weights(rows_.weights + step * PANEL + static_cast<std::size_t>(half * LANES), to);
      clear_past(rows_.steps[step].bytes, to);
    }
  }

  // Tiles 0 to 3 are sums [positions][channels], 4 and 5 codes, 6 and 7 weights.
  template <int Rows, int Halves, bool IsFirst>
  void multiply(std::size_t position) {
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
      const std::size_t pitch = rows_.steps[step].pitch;
      const std::int8_t* in = rows_.bytes + rows_.steps[step].at + position * pitch;
      const std::int8_t* weights = weights_ + step * STEP_BYTES;
      Registers::template load<4>(in, pitch);
      Registers::template load<6>(weights, LINE);
      Registers::template dot_i8<0, 4, 6>();
      if constexpr (Rows == 2) {
        Registers::template load<5>(in + TILE_ROWS * pitch, pitch);
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

  const TileRows& rows_;
  std::size_t steps_;
  std::int8_t* weights_;  // [step][half][16 rows of 4 bytes][16 output channels][4]
  std::int32_t* sums_;    // [position][PANEL]
  Waiting waiting_;
};

// Other code of the thread may use tiles too, so they are taken and given back in every call.
template <typename Registers>
void multiply_rows(const TileRows& rows) {
  static constexpr TileConfig config = full_tiles();
  Registers::configure(config);
  PanelProduct<Registers>(rows).run();
  Registers::release();
}

}  // namespace

}  // namespace ftbnn
