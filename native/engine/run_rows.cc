// Everything but the convolutions: rows in, rows out, and their signs packed while they are in the cache.
#include <cstring>

#include "engine/run.h"

namespace ftbnn {

void ImageRun::clear_border(int value) {
  const RealForm& f = form(value);
  const Shape& s = shape(value);
  if (!f.is_needed || !f.has_border(s)) return;
  float* rows = memory_.arena.data() + f.offset;
  const std::size_t line = f.row_stride(), left = z(f.left) * z(f.channels), inside = z(s.w) * z(f.channels);
  std::fill_n(rows, z(f.top) * line, 0.0F);
  for (int y = f.top; y < f.top + s.h; ++y) {
    std::fill_n(rows + z(y) * line, left, 0.0F);
    std::fill_n(rows + z(y) * line + left + inside, line - left - inside, 0.0F);
  }
  std::fill_n(rows + z(f.top + s.h) * line, z(f.rows - f.top - s.h) * line, 0.0F);
}

template <typename Convert>
void ImageRun::fill_input(const Convert& convert) {
  clear_border(0);
  for_rows(model_.input().h, PIECES_PER_THREAD, [&](int, int first, int last) {
    for (int y = first; y < last; ++y) {
      convert(y, at(0, y, 0));
      pack_rows(plan_.input_planes, y, y + 1);
    }
  });
}

void ImageRun::load(const float* image) {
  const Shape& in = model_.input();
  const std::size_t plane = z(in.h) * z(in.w);
  has_pixels_ = false;
  fill_input([&](int y, float* to) { kernels_.rows.interleave_row({image + z(y) * z(in.w), plane, in.w, in.c, to}); });
}

void ImageRun::load(const std::uint8_t* image) {
  const Shape& in = model_.input();
  const std::size_t line = z(in.w) * z(in.c);
  has_pixels_ = plan_.stem.index >= 0 && kernels_.sliced_row != nullptr;
  if (has_pixels_) return load_pixels(image);
  fill_input([&](int y, float* to) {
    kernels_.rows.normalise_row(
        {image + z(y) * line, plan_.pixel_scale.data(), plan_.pixel_shift.data(), static_cast<int>(line), to});
  });
}

void ImageRun::store(float* output) const {
  const int value = model_.operators.back().output;
  const Shape& out = shape(value);
  if (out.h * out.w == 1) {
    std::copy_n(at(value, 0, 0), out.c, output);
    return;
  }
  for (int y = 0; y < out.h; ++y) {
    for (int x = 0; x < out.w; ++x) {
      const float* from = at(value, y, x);
      for (int c = 0; c < out.c; ++c) output[(z(c) * z(out.h) + z(y)) * z(out.w) + z(x)] = from[c];
    }
  }
}

// Signs of a row of a value's real form.
void ImageRun::pack_row(const CodePlane& plane, int y) const {
  for (std::size_t g = 0; g < plane.groups.size(); ++g) {
    const CodeGroup& group = plane.groups[g];
    if (group.is_copy) continue;
    SignRow row{};
    row.in_stride = z(form(plane.value).channels);
    row.width = shape(plane.value).w;
    row.codes = plane_at(plane, static_cast<int>(g), y + plane.top, plane.left);
    row.codes_stride = z(group.words);
    for (const Run& run : group.runs) {
      row.in = at(plane.value, y, 0) + run.first;
      row.channels = run.count;
      kernels_.rows.sign_row(row);
      row.at += run.count;
    }
  }
}

void ImageRun::pack_rows(const std::vector<int>& planes, int first, int last) const {
  for (const int plane : planes) {
    for (int y = first; y < last; ++y) pack_row(plan_.planes[z(plane)], y);
  }
}

void ImageRun::pool(const Operator& op, const OperatorPlan& plan) {
  for_rows(shape(op.output).h, PIECES_PER_THREAD, [&](int, int first, int last) {
    for (int y = first; y < last; ++y) {
      pool_row(op, y, at(plan_.sources[z(op.inputs[0])].value, 0, 0), 0);
      pack_rows(plan.pack_planes, y, y + 1);
    }
  });
}

// `in` is column 0 of the input's row `first_row`. Runs of channels that came before are copied.
void ImageRun::pool_row(const Operator& op, int y, const float* in, int first_row) const {
  const Shape &from = shape(op.inputs[0]), &out = shape(op.output);
  const Source& source = plan_.sources[z(op.inputs[0])];
  const RealForm& f = form(source.value);
  const Window& w = op.window;
  const int top = std::max(y * w.sh - w.ph, 0), bottom = std::min(y * w.sh - w.ph + w.kh, from.h);
  PoolRow row{};
  row.row_stride = f.row_stride();
  row.in_stride = z(f.channels);
  row.rows = bottom - top;
  row.kw = w.kw;
  row.stride = w.sw;
  row.left = w.pw;
  row.columns = from.w;
  row.divisor = op.whole_window ? static_cast<float>(w.kh * w.kw) : 0.0F;
  row.width = out.w;
  row.out_stride = z(form(op.output).channels);
  float* to = at(op.output, y, 0);
  const auto kernel = op.kind == Kind::max_pool ? kernels_.rows.max_pool_row : kernels_.rows.average_pool_row;
  int channel = 0;
  for (auto run = source.runs.begin(); run != source.runs.end(); channel += run->count, ++run) {
    int same = 0;
    for (auto earlier = source.runs.begin(); earlier != run && !(*earlier == *run); ++earlier) same += earlier->count;
    if (same < channel) {
      for (int x = 0; x < out.w; ++x) {
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

void ImageRun::average_to(const Operator& op) {
  const Shape &in = shape(op.inputs[0]), &out = shape(op.output);
  for (int y = 0; y < out.h; ++y) {
    const int top = y * in.h / out.h, bottom = ((y + 1) * in.h + out.h - 1) / out.h;
    for (int x = 0; x < out.w; ++x) {
      const int first = x * in.w / out.w, last = ((x + 1) * in.w + out.w - 1) / out.w;
      PoolRow row{};
      row.in = at(op.inputs[0], top, first);
      row.row_stride = form(op.inputs[0]).row_stride();
      row.in_stride = z(form(op.inputs[0]).channels);
      row.rows = bottom - top;
      row.kw = row.columns = last - first;
      row.width = row.stride = 1;
      row.channels = out.c;
      row.out = at(op.output, y, x);
      kernels_.rows.average_pool_row(row);
    }
  }
}

void ImageRun::concat(const Operator& op, const OperatorPlan& plan) {
  const Shape& out = shape(op.output);
  for_rows(out.h, PIECES_PER_THREAD, [&](int, int first, int last) {
    for (int y = first; y < last; ++y) {
      for (int x = 0; x < out.w; ++x) {
        float* to = at(op.output, y, x);
        for (const int input : op.inputs) to = std::copy_n(at(input, y, x), shape(input).c, to);
      }
      pack_rows(plan.pack_planes, y, y + 1);
    }
  });
}

void ImageRun::channels(const Operator& op) {
  const Shape& out = shape(op.output);
  for_rows(out.h, PIECES_PER_THREAD, [&](int, int first, int last) {
    for (int y = first; y < last; ++y) {
      for (int x = 0; x < out.w; ++x) {
        const float* from = at(op.inputs[0], y, x);
        float* to = at(op.output, y, x);
        for (int c = 0; c < out.c; ++c) to[c] = from[op.map[c]];
      }
    }
  });
}

void ImageRun::pointwise(const Operator& op, const OperatorPlan& plan) {
  const Shape& out = shape(op.output);
  for_rows(out.h, PIECES_PER_THREAD, [&](int, int first, int last) {
    for (int y = first; y < last; ++y) {
      PointwiseRow row{at(op.inputs[0], y, 0), z(form(op.inputs[0]).channels), out.w, out.c, {}};
      row.end.scale = plan.scale.data();
      row.end.shift = plan.shift.data();
      row.end.left = plan.left.data();
      row.end.right = plan.right.data();
      row.end.act = op.tail.act;
      if (op.tail.shortcut >= 0) {
        row.end.shortcut = at(op.tail.shortcut, y, 0);
        row.end.shortcut_stride = z(form(op.tail.shortcut).channels);
      }
      row.end.out = at(op.output, y, 0);
      row.end.out_stride = z(form(op.output).channels);
      kernels_.rows.pointwise_row(row);
      pack_rows(plan.pack_planes, y, y + 1);
    }
  });
}

void ImageRun::flatten(const Operator& op) {
  const Shape& in = shape(op.inputs[0]);
  float* to = at(op.output, 0, 0);
  for (int y = 0; y < in.h; ++y) {
    for (int x = 0; x < in.w; ++x) {
      const float* from = at(op.inputs[0], y, x);
      for (int c = 0; c < in.c; ++c) to[(z(c) * z(in.h) + z(y)) * z(in.w) + z(x)] = from[c];
    }
  }
}

}  // namespace ftbnn
