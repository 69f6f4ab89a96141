#include "training/input_look_ups.h"

namespace ftbnn::training {

namespace {

constexpr std::size_t RING_BYTES = 384 << 10;  // of tables, that a second-level cache keeps beside everything else
constexpr int ROWS = 48;                       // positions whose sums are made at a time, about
constexpr int PANELS = 4;                      // of the same tables
constexpr int ROW_TASKS = 2;                   // for each thread: the more there are, the more tables are built twice

thread_local Scratch task_scratch;  // of whoever runs a task

}  // namespace

InputLookUps::InputLookUps(const BatchShape& shape, const GradGroup& group, const ToInput& to, int slice,
                           const GradKernels& kernels, int threads, Scratch& scratch)
    : InputGradient(shape, group, to, slice, kernels, TABLE_TERMS, scratch),
      ring_rows_(std::min(s.oh, divide_up(s.kh, s.sh))),
      right_(scratch.take<char>(panels_ * panel_bytes())) {
  const std::size_t image_bytes = static_cast<std::size_t>(ring_rows_) * columns_ * length() * TABLE_BYTES;
  images_ = std::clamp(static_cast<int>(RING_BYTES / image_bytes), 1, slice);
  image_tasks_ = divide_up(slice, images_);
  images_ = divide_up(slice, image_tasks_);
  rows_ = std::max(s.sh, divide_up(s.h, divide_up(ROW_TASKS * threads, image_tasks_)));
  row_tasks_ = divide_up(s.h, rows_);
}

// Not a large power of two, or tables of neighbouring channels would fall into the same few lines of the cache.
std::size_t InputLookUps::table_step(int images) const {
  const std::size_t tables = static_cast<std::size_t>(columns_) * images;
  return (tables % 16 == 0 ? tables + 1 : tables) * TABLE_BYTES;
}

void InputLookUps::pack_weights(int panel) const {
  const int first = panel * GRAD_LANES, taps = s.taps();
  kernels_.tables->pack_signs(group_.parts[0].weight + first * taps, static_cast<std::size_t>(group_.in) * taps,
                              group_.out, std::min(GRAD_LANES, group_.in - first), taps, right_ + panel * panel_bytes(),
                              static_cast<std::size_t>(depth_) * GRAD_LANES, depth_);
}

void InputLookUps::run(const Slice& slice, int task) {
  const int image = task % image_tasks_ * images_, first = task / image_tasks_ * rows_;
  if (image >= slice.images) return;
  const int images = std::min(images_, slice.images - image);
  task_scratch.restart();
  const Band band = {image, images, slice.images, task_scratch.take<char>(ring_rows_ * length() * table_step(images_))};
  int built = -1;  // the last row of gy that has tables
  for (int y = first; y < std::min(s.h, first + rows_); ++y) {
    const std::vector<GradTap> taps = row_taps(y);
    if (taps.empty()) {
      for (int phase = 0; phase < phases(); ++phase) leave(slice.first + image, images, y, phase);
      continue;
    }
    const auto by_shift = [](const GradTap& a, const GradTap& b) { return a.shift < b.shift; };
    const auto ends = std::minmax_element(taps.begin(), taps.end(), by_shift);
    const int last = ends.second->shift + y / s.sh;
    for (int row = std::max(built + 1, ends.first->shift + y / s.sh); row <= last; ++row) build(band, row);
    built = std::max(built, last);
    run_row(slice, band, y);
  }
}

void InputLookUps::build(const Band& band, int row) const {
  const std::size_t step = table_step(band.images);
  char* tables = band.ring + row % ring_rows_ * length() * step;
  for (int column = 0; column < columns_; ++column) {
    const std::size_t at = (static_cast<std::size_t>(row) * columns_ + column) * band.ns + band.image;
    kernels_.tables->build(left_.at(at), left_.stride(), band.images, length(), false, tables, step);
    tables += band.images * TABLE_BYTES;
  }
}

void InputLookUps::run_row(const Slice& slice, const Band& band, int y) const {
  const std::size_t step = table_step(band.images), images = band.images;
  const std::vector<GradTap> vertical = row_taps(y);
  static thread_local Scratch scratch;
  scratch.restart();
  auto* totals = scratch.take<std::int32_t>(PANELS * BLOCK_ROWS * GRAD_LANES);
  auto* sums = scratch.take<float>(PANELS * BLOCK_ROWS * GRAD_LANES);
  for (int phase = 0; phase < phases(); ++phase) {
    std::vector<TableRun> runs;
    for (const GradTap& ty : vertical) {
      const int row = ty.shift + y / s.sh;
      for (const GradTap& tx : column_taps(phase)) {
        const std::size_t column = tx.shift - first_column_;
        runs.push_back({row % ring_rows_ * length() * step + column * images * TABLE_BYTES,
                        (ty.k * s.kw + tx.k) * tap_bytes(), length()});
      }
    }
    if (runs.empty()) {
      leave(slice.first + band.image, band.images, y, phase);
      continue;
    }
    const int xs = columns_of(phase), block = std::max(1, ROWS / band.images);
    for (int x = 0; x < xs; x += block) {
      const int width = std::min(block, xs - x), rows = width * band.images;
      const std::size_t product_size = static_cast<std::size_t>(rows) * GRAD_LANES;
      float steps[BLOCK_ROWS];
      for (int r = 0; r < rows; r += band.images) {
        std::copy_n(slice.rounding.image_sizes() + band.image, band.images, steps + r);
      }
      for (int panel = 0; panel < panels_; panel += PANELS) {
        const int panels = std::min(PANELS, panels_ - panel);
        std::size_t columns[PANELS];
        for (int c = 0; c < panels; ++c) columns[c] = c * panel_bytes();
        std::fill_n(totals, panels * product_size, 0);
        kernels_.tables->add({band.ring + x * images * TABLE_BYTES, step, right_ + panel * panel_bytes(), columns,
                              runs.data(), static_cast<int>(runs.size()), rows, panels, totals, product_size});
        for (int c = 0; c < panels; ++c) {
          kernels_.tables->finish({totals + c * product_size, rows, nullptr, steps, sums + c * product_size, false});
        }
        GradScatter scatter = scatter_from(slice.first + band.image, band.images, y, phase, x, panel, PANELS);
        scatter.sums = sums;
        scatter.product_size = product_size;
        scatter.xs = width;
        kernels_.scatter(scatter);
      }
    }
  }
}

}  // namespace ftbnn::training
