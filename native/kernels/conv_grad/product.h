// The product in vector registers: every ISA's file includes this and compiles it with its own flags.
//
// Math says what a lane is. Math::Vector holds sums, and as many dwords of the right operand; Math::Dword is one dword
// of the left: a float, two bf16 or four bytes. Math::multiply_add takes one of each. Math::Row makes the floats of a
// row, Math::Floats at a time, of its sums and of what is too much of them. Sums that overflow after Math::narrow_steps
// dwords (0: never) are widened by then: Math::widen adds them to a vector of totals. Of bytes, Math::add adds sums.
#pragma once

#include "kernels/conv_grad/conv_grad.h"

namespace ftbnn {

namespace {

// The compiler must have the value in a register here, and not know it.
template <typename Vector>
inline void keep(Vector& value) {
#if defined(__x86_64__)
  __asm__ volatile("" : "+v"(value));
#elif defined(__aarch64__)
  __asm__ volatile("" : "+w"(value));
#else
  __asm__ volatile("" : "+m"(value));
#endif
}

// Sums that are floats already.
struct FloatRow {
  FloatRow(const GradProduct&, int) {}
  template <typename Vector>
  Vector operator()(Vector sums, Vector) const {
    return sums;
  }
};

// How many dwords may be multiplied before sums are widened. Nothing, of sums that are wide.
template <typename Math, int Rows, int Columns, bool Narrow = (Math::narrow_steps > 0)>
struct Widening {
  using Sums = typename Math::Vector[Rows][Columns];
  int run(int wanted, Sums&) { return wanted; }
  void finish(Sums&) {}
};

template <typename Math, int Rows, int Columns>
struct Widening<Math, Rows, Columns, true> {
  using Sums = typename Math::Vector[Rows][Columns];

  int run(int wanted, Sums& sums) {
    if (room == 0) {
      widen(sums);
      room = Math::narrow_steps;
    }
    const int granted = wanted < room ? wanted : room;
    room -= granted;
    return granted;
  }

  void finish(Sums& sums) {
    widen(sums);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
      for (int c = 0; c < Columns; ++c) sums[r][c] = totals[r][c];
    }
  }

 private:
  void widen(Sums& sums) {
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
      for (int c = 0; c < Columns; ++c) {
        Math::widen(totals[r][c], sums[r][c]);
        sums[r][c] = typename Math::Vector{};
      }
    }
  }

  int room = Math::narrow_steps;
  Sums totals = {};
};

// Bytes of the left operand are GRAD_ZERO too large: what that makes of all sums of a column.
template <typename Math, int Columns>
struct Extra {
  using Vector = typename Math::Vector;
  using Dword = typename Math::Dword;

  Extra(const GradProduct& task, int lane) {
    if constexpr (Math::depth == 4) {
      constexpr int chains = 4;  // a sum alone would wait for itself
      constexpr auto zeros = static_cast<Dword>(GRAD_ZERO * 0x01010101U);
      const int depth = task.depth / Math::depth, steps = (depth + chains - 1) / chains;
      Vector sums[chains][Columns] = {};
      Widening<Math, chains, Columns> widening;
      for (int s = 0; s < task.segments; ++s) {
        const Dword* right = static_cast<const Dword*>(task.right) + task.right_at[s] / Math::depth + lane;
        for (int step = 0; step < steps;) {
          const int end = step + widening.run(steps - step, sums);
          for (; step < end; ++step) {
#pragma GCC unroll 4
            for (int j = 0; j < chains; ++j, right += GRAD_LANES) {
              if (step * chains + j >= depth) break;
#pragma GCC unroll 2
              for (int c = 0; c < Columns; ++c) {
                Math::multiply_add(sums[j][c], zeros, reinterpret_cast<const Vector*>(right)[c]);
              }
            }
          }
        }
      }
      widening.finish(sums);
      for (int c = 0; c < Columns; ++c) {
        for (int j = 0; j < chains; ++j) of[c] = Math::add(of[c], sums[j][c]);
      }
    }
  }

  Vector of[Columns] = {};
};

// A tile is Rows x Columns vectors of sums.
template <typename Math, int Rows, int Columns>
void product_tile(const GradProduct& task, int row, int lane, const Extra<Math, Columns>& extra) {
  using Vector = typename Math::Vector;
  using Dword = typename Math::Dword;
  const std::size_t stride = task.left_stride / Math::depth;
  const int depth = task.depth / Math::depth;
  Vector sums[Rows][Columns] = {};
  Widening<Math, Rows, Columns> widening;
  for (int s = 0; s < task.segments; ++s) {
    const Dword* left = static_cast<const Dword*>(task.left) + (task.left_row[s] + row) * stride;
    const Dword* right = static_cast<const Dword*>(task.right) + task.right_at[s] / Math::depth + lane;
    for (int k = 0; k < depth;) {
      const int end = k + widening.run(depth - k, sums);
      for (; k < end; ++k, right += GRAD_LANES) {
        Vector factors[Columns];
#pragma GCC unroll 2
        for (int c = 0; c < Columns; ++c) factors[c] = reinterpret_cast<const Vector*>(right)[c];
#pragma GCC unroll 16
        for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
          for (int c = 0; c < Columns; ++c) Math::multiply_add(sums[r][c], left[r * stride + k], factors[c]);
        }
      }
    }
  }
  widening.finish(sums);
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
    auto* out =
        reinterpret_cast<typename Math::Floats*>(task.out + static_cast<std::size_t>(row + r) * GRAD_LANES + lane);
    const typename Math::Row floats(task, row + r);
#pragma GCC unroll 2
    for (int c = 0; c < Columns; ++c) {
      const typename Math::Floats values = floats(sums[r][c], extra.of[c]);
      out[c] = task.adds ? out[c] + values : values;
    }
  }
}

template <typename Math, int Rows, int Columns>
void product_rows(const GradProduct& task, int rows, int row, int lane, const Extra<Math, Columns>& extra) {
  if constexpr (Rows > 0) {
    if (rows == Rows) return product_tile<Math, Rows, Columns>(task, row, lane, extra);
    product_rows<Math, Rows - 1, Columns>(task, rows, row, lane, extra);
  }
}

// Cuts the rows into as few tiles as it takes, of nearly equal sizes.
template <typename Math, int Rows, int Columns>
void product(const GradProduct& task, int lane) {
  const Extra<Math, Columns> extra(task, lane);
  const int count = (task.rows + Rows - 1) / Rows;
  for (int tile = 0, row = 0; tile < count; ++tile) {
    const int rows = (task.rows - row) / (count - tile);
    product_rows<Math, Rows, Columns>(task, rows, row, lane, extra);
    row += rows;
  }
}

template <typename Math, int Rows>
void product(const GradProduct& task) {
  constexpr int width = sizeof(typename Math::Vector) / sizeof(float);
  for (int lane = 0; lane < task.lanes; lane += 2 * width) {
    task.lanes - lane > width ? product<Math, Rows, 2>(task, lane) : product<Math, Rows, 1>(task, lane);
  }
}

#if defined(FTBNN_BENCH)
template <typename Math>
double roof(int steps) {
  using Vector = typename Math::Vector;
  constexpr int count = 12;
  Vector sums[count] = {}, factor = {};
  for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (Vector& sum : sums) {
      Math::multiply_add(sum, typename Math::Dword{0}, factor);
      keep(sum);
    }
  }
  return static_cast<double>(count) * (sizeof(Vector) / sizeof(float)) * Math::depth * steps;
}
#else
template <typename Math>
constexpr double (*roof)(int) = nullptr;
#endif

[[maybe_unused]] void nothing() {}

}  // namespace

}  // namespace ftbnn
