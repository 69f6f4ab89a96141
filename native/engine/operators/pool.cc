#include "engine/operators/pool.h"

namespace ftbnn {

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

// Runs of channels that came before are copied.
void PoolStep::pool_row(Image& image, int y, const float* in, int first_row, std::size_t row_stride) const {
  const Window& w = op_.window;
  const int top = std::max(y * w.sh - w.ph, 0), bottom = std::min(y * w.sh - w.ph + w.kh, this->in().h);
  PoolRow row{};
  row.row_stride = row_stride;
  row.in_stride = z(shape(source_.value).c);
  row.rows = bottom - top;
  row.kw = w.kw;
  row.stride = w.sw;
  row.left = w.pw;
  row.columns = this->in().w;
  row.divisor = op_.whole_window ? static_cast<float>(w.kh * w.kw) : 0.0F;
  row.width = out().w;
  row.out_stride = z(out().c);
  float* to = image.real(op_.output, y, 0);
  const auto kernel = is_max_ ? image.between().max_pool_row : image.between().average_pool_row;
  int channel = 0;
  for (auto run = source_.runs.begin(); run != source_.runs.end(); channel += run->count, ++run) {
    int same = 0;
    for (auto earlier = source_.runs.begin(); earlier != run && !(*earlier == *run); ++earlier) same += earlier->count;
    if (same < channel) {
      for (int x = 0; x < out().w; ++x) {
        float* position = to + z(x) * row.out_stride;
        std::copy_n(position + same, run->count, position + channel);
      }
      continue;
    }
    row.in = in + z(top - first_row) * row.row_stride + run->first;
    row.channels = run->count;
    row.out = to + channel;
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
