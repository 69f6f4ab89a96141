// One image on its way through the network: its memory, and the threads that work on it.
//
// Work is cut into pieces that threads take; a piece writes only its own rows and channels, and what it computes does
// not depend on how the work was cut.
#pragma once

#include <algorithm>

#include "base/threads.h"
#include "engine/plan.h"

namespace ftbnn {

// The memory of an image under way.
struct Memory {
  explicit Memory(const Plan& plan) : arena(plan.arena_floats()), codes(plan.code_words()), pixels(plan.stem_bytes()) {}
  AlignedArray<float> arena;
  AlignedArray<std::uint64_t> codes;
  AlignedArray<std::uint8_t> pixels;
};

// What one thread works in: rows of an image as a convolution reads them, which no other thread looks at, and scratch.
struct alignas(CACHE_LINE) Desk {
  explicit Desk(const Plan& plan) : arranged(plan.arranged_bytes()), scratch(plan.scratch_bytes()) {}
  AlignedArray<std::uint8_t> arranged, scratch;
  std::uint64_t pass = 0;  // of which rows from `first` on are arranged
  int first = 0;
};

class Image {
 public:
  static constexpr int PIECES_PER_THREAD = 4;
  static constexpr std::size_t BAND_BYTES = std::size_t{1}
                                            << 21;  // of an output: less costs more calls than caches gain

  // Without a pool the calling thread does all. desks: one for each thread.
  Image(const Model& model, const Plan& plan, Memory& memory, Desk* desks, ThreadPool* pool)
      : model_(model), plan_(plan), memory_(memory), desks_(desks), pool_(pool) {}

  void load(const float* image);
  void load(const std::uint8_t* image);
  void store(float* output) const;

  const BetweenKernels& between() const { return plan_.between(); }
  const Forms& forms() const { return plan_.forms(); }
  const Shape& shape(int value) const { return model_.values[z(value)]; }
  bool has_pixels() const { return has_pixels_; }  // the image is there for the integer stem alone
  const void* pixels() const { return memory_.pixels.data(); }
  int threads() const { return pool_ != nullptr ? pool_->threads() : 1; }
  void* scratch(int worker) const { return desks_[worker].scratch.data(); }

  // A convolution's way through the image, in tasks. Each thread arranges the rows that a task reads, make(to), unless
  // its last task of this pass read them too: rows that threads shared would travel from cache to cache.
  static std::uint64_t new_pass();
  void* arranged(int worker) const { return desks_[worker].arranged.data(); }
  template <typename Make>
  void* arranged(std::uint64_t pass, int first, int worker, const Make& make) const {
    Desk& desk = desks_[worker];
    if (desk.pass != pass || desk.first != first) make(static_cast<void*>(desk.arranged.data()));
    desk.pass = pass;
    desk.first = first;
    return desk.arranged.data();
  }

  float* real(int value, int y, int x) const {
    const RealForm& form = forms().real(value);
    return memory_.arena.data() + form.offset + z(y + form.border.top) * form.row() +
           z(x + form.border.left) * z(form.channels);
  }
  std::uint64_t* codes(int number, int y, int x) const {
    const CodeForm& form = forms().code(number);
    return memory_.codes.data() + form.offset + z(y + form.border.top) * form.row() +
           z(x + form.border.left) * form.words();
  }

  // body(task, worker) for every task.
  template <typename Body>
  void parallel(int count, const Body& body) {
    if (pool_ != nullptr) {
      pool_->run(count, body);
    } else {
      for (int task = 0; task < count; ++task) body(task, 0);
    }
  }

  // body(first row, last row, worker) for at most `most` pieces per thread.
  template <typename Body>
  void for_rows(int rows, const Body& body, int most = PIECES_PER_THREAD) {
    const int pieces = std::min(rows, threads() > 1 ? most * threads() : 1);
    parallel(pieces, [&](int k, int worker) { body(rows * k / pieces, rows * (k + 1) / pieces, worker); });
  }

  // body(panel, first row, last row, worker) for pieces of an output of so many panels: all panels of some rows, which
  // stay in the cache meanwhile, then those of the next rows. Threads take rows apart, not panels: those of a position
  // share cache lines.
  template <typename Body>
  void for_panels(int panels, int rows, std::size_t row_bytes, const Body& body, int most = PIECES_PER_THREAD) {
    const int bands = static_cast<int>(z(rows) * row_bytes / BAND_BYTES) + 1;
    const int wanted = threads() > 1 ? (most + panels - 1) / panels : 1;
    const int cuts = std::min(rows, std::max((bands + threads() - 1) / threads(), wanted) * threads());
    parallel(panels * cuts, [&](int task, int worker) {
      const int cut = task / panels;
      body(task % panels, rows * cut / cuts, rows * (cut + 1) / cuts, worker);
    });
  }

  // Zeros around the real form of a value that is about to be made.
  void clear_border(int value) const;
  // The coded forms that are made of rows [first, last) of a value's real form.
  void pack(int value, int first, int last) const;
  void pack_all(int value);

 private:
  static std::size_t z(int value) { return static_cast<std::size_t>(value); }
  template <typename Convert>
  void fill_input(const Convert& convert);

  const Model& model_;
  const Plan& plan_;
  Memory& memory_;
  Desk* desks_;
  ThreadPool* pool_;
  bool has_pixels_ = false;
};

}  // namespace ftbnn
