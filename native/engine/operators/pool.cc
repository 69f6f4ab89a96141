#include "engine/operators/pool.h"

#include <cstring>

namespace ftbnn {

namespace {

constexpr std::size_t BAND_FLOATS = std::size_t{1} << 16;  // 256 KiB: a quarter of the smallest L2 cache to tune for
constexpr std::size_t MAX_BAND_FLOATS = std::size_t{1} << 20;

}  // namespace

bool PoolStep::declare(Forms& forms) {
  forms.read_source(op_.inputs[0]);
  forms.read_real(op_.output);
  return true;
}

void PoolStep::run(Image& image) const {
  image.clear_border(op_.output);
  const float* in = image.real(source_.value, 0, 0);
  const std::size_t row = image.forms().real(source_.value).row();
  image.for_rows(out().h, [&](int first, int last, int) {
    for (int y = first; y < last; ++y) {
      pool_row(image, y, in, 0, row);
      image.pack(op_.output, y, y + 1);
    }
  });
}

bool PoolStep::plan_bands(int together) {
  const Window& w = op_.window;
  const auto fitting = static_cast<int>(BAND_FLOATS / line());
  together_ = together;
  band_ = std::clamp((fitting - w.kh) / w.sh + 1, 1, out().h);
  if (band_ * w.sh > together) band_ -= band_ * w.sh % together / w.sh;
  band_floats_ = z(std::min(in().h, (band_ - 1) * w.sh + w.kh)) * line();
  return band_floats_ <= MAX_BAND_FLOATS;
}

bool PoolStep::covers_input() const { return op_.window.kh >= op_.window.sh && bottom(out().h - 1) == in().h; }

// Where rows of the input that are made together end, if there is such a place.
int PoolStep::end_of_band(int y, int most) const {
  for (int end = most; end > y; --end) {
    if (bottom(end - 1) % together_ == 0) return end;
  }
  return most;
}

// One piece for each thread: at the seam of two both make what both need. Rows that the next band needs again are moved
// up.
void PoolStep::run_in_bands(Image& image, const PrepareRows& prepare, const MakeRows& make) const {
  image.clear_border(op_.output);
  image.for_rows(
      out().h,
      [&](int first, int last, int worker) {
        auto* band = static_cast<float*>(image.scratch(worker));
        prepare(top(first), bottom(last - 1), worker);
        const int bands = (last - first + band_ - 1) / band_;
        const int rows = together_ > 1 ? band_ : (last - first + bands - 1) / bands;  // nearly equal bands
        int start = 0, done = 0;                                                      // rows of the input in the band
        for (int y = first, end; y < last; y = end) {
          end = end_of_band(y, std::min(y + rows, last));
          if (done > top(y)) {
            std::memmove(band, band + z(top(y) - start) * line(), z(done - top(y)) * line() * sizeof(float));
          } else {
            done = top(y);
          }
          start = top(y);
          const int next = bottom(end - 1),
                    own = std::clamp(first > 0 ? bottom(first - 1) : 0, done, std::max(done, next));
          if (done < next) make(done, own, next, band + z(done - start) * line(), worker);
          done = std::max(done, next);
          for (int r = y; r < end; ++r) {
            pool_row(image, r, band, start, line());
            image.pack(op_.output, r, r + 1);
          }
        }
      },
      1);
}

// Runs of channels that come twice are written twice; those that come more often are copied.
void PoolStep::pool_row(Image& image, int y, const float* in, int first_row, std::size_t row_stride) const {
  const Window& w = op_.window;
  PoolRow row{};
  row.row_stride = row_stride;
  row.in_stride = z(shape(source_.value).c);
  row.rows = bottom(y) - top(y);
  row.kw = w.kw;
  row.stride = w.sw;
  row.left = w.pw;
  row.columns = this->in().w;
  row.divisor = op_.whole_window ? static_cast<float>(w.kh * w.kw) : 0.0F;
  row.width = out().w;
  row.out_stride = z(out().c);
  float* to = image.real(op_.output, y, 0);
  const auto kernel = is_max_ ? image.between().max_pool_row : image.between().average_pool_row;
  int channel = 0, written_again = -1;
  for (auto run = source_.runs.begin(); run != source_.runs.end(); channel += run->count, ++run) {
    int same = 0;
    for (auto earlier = source_.runs.begin(); earlier != run && !(*earlier == *run); ++earlier) same += earlier->count;
    if (same < channel) {
      if (channel == written_again) continue;
      for (int x = 0; x < out().w; ++x) {
        float* position = to + z(x) * row.out_stride;
        std::copy_n(position + same, run->count, position + channel);
      }
      continue;
    }
    row.in = in + z(top(y) - first_row) * row.row_stride + run->first;
    row.channels = run->count;
    row.out = to + channel;
    row.again = 0;
    int later = channel + run->count;
    for (auto other = run + 1; other != source_.runs.end() && row.again == 0; later += other->count, ++other) {
      if (*other == *run) row.again = z(later - channel);
    }
    if (row.again != 0) written_again = channel + static_cast<int>(row.again);
    kernel(row);
  }
}

namespace {

void read_pool(Fields& fields) {
  fields.check(fields.keeps_channels(), "a pool changes the number of channels");
  fields.window();
}

void read_max(Fields& fields) { read_pool(fields); }

void read_average(Fields& fields) {
  read_pool(fields);
  fields.op().whole_window = fields.flags("divisor", 1) == 1;
}

template <bool IsMax>
std::unique_ptr<Step> plan(const Operator& op, const Planning& planning) {
  return std::make_unique<PoolStep>(op, planning, IsMax);
}

}  // namespace

extern const OperatorKind max_pool_kind, avg_pool_kind;
const OperatorKind max_pool_kind = {4, "max-pool", 1, false, 0, read_max, plan<true>};
const OperatorKind avg_pool_kind = {5, "avg-pool", 1, false, 0, read_average, plan<false>};

}  // namespace ftbnn
