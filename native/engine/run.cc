#include "engine/run.h"

#include <cstring>

#include "engine/tap_words.h"

namespace ftbnn {

Workspace::Workspace(const Plan& plan, const Kernels& kernels, int threads)
    : arena(plan.arena_floats),
      gathered(plan.gather_floats),
      bands(plan.band_floats * static_cast<std::size_t>(BANDS_PER_THREAD * threads)),
      codes(plan.code_words),
      scratch(plan.scratch_ints),
      pixels(kernels.sliced_row != nullptr ? plan.stem.pixel_bytes : 0),
      patches(pixels.size() != 0 ? plan.stem.patch_bytes * static_cast<std::size_t>(PIECES_PER_THREAD * threads) : 0),
      code_bytes(kernels.bconv_rows != nullptr ? plan.tile_bytes : 0) {}

void ImageRun::execute(std::size_t index) {
  const Operator& op = model_.operators[index];
  const OperatorPlan& plan = plan_.operators[index];
  if (plan.is_done) return;
  clear_border(op.output);
  switch (op.kind) {
    case Kind::conv:
    case Kind::linear:
      plan.pool >= 0 ? convolve_and_pool(op, plan) : convolve(op, plan);
      break;
    case Kind::bconv:
      if (kernels_.bconv_rows != nullptr && plan.suits_tiles) {
        convolve_tiles(op, plan);
      } else {
        convolve_binary(op, plan);
      }
      break;
    case Kind::max_pool:
    case Kind::avg_pool:
      return pool(op, plan);
    case Kind::average_to:
      average_to(op);
      break;
    case Kind::concat:
      return concat(op, plan);
    case Kind::channels:
      channels(op);
      break;
    case Kind::pointwise:
      return pointwise(op, plan);
    case Kind::flatten:
      flatten(op);
      break;
  }
  if (plan.pack_planes.empty()) return;
  for_rows(shape(op.output).h, PIECES_PER_THREAD,
           [&](int, int first, int last) { pack_rows(plan.pack_planes, first, last); });
}

// The part of the epilogue that is the same for a whole row of a panel.
Epilogue ImageRun::epilogue(const Operator& op, const OperatorPlan& plan, const GroupPlan& group, int panel,
                            int y) const {
  const std::size_t first = z(group.first_panel + panel) * PANEL;
  const int channel = group.out_first + panel * PANEL;
  Epilogue end{};
  end.scale = plan.scale.data() + first;
  end.shift = plan.shift.data() + first;
  end.left = plan.left.data() + first;
  end.right = plan.right.data() + first;
  end.act = op.tail.act;
  if (op.tail.shortcut >= 0) {
    end.shortcut = at(op.tail.shortcut, y, 0) + channel;
    end.shortcut_stride = z(form(op.tail.shortcut).channels);
  }
  if (form(op.output).is_needed) {
    end.out = at(op.output, y, 0) + channel;
    end.out_stride = z(form(op.output).channels);
  }
  if (plan.direct_plane >= 0) {
    const CodePlane& plane = plan_.planes[z(plan.direct_plane)];
    const CodeTarget& target = plan.targets[z(group.first_panel + panel)];
    if (target.group < 0) return end;
    auto* halves = reinterpret_cast<std::uint32_t*>(plane_at(plane, target.group, y + plane.top, plane.left));
    end.codes = halves + target.half;
    end.codes_stride = 2 * z(plane.groups[z(target.group)].words);
  }
  return end;
}

ConvRow ImageRun::conv_row(const Operator& op, const OperatorPlan& plan, const GroupPlan& group, int panel) const {
  const Window& w = op.window;
  ConvRow row{};
  row.row_stride =
      plan.groups.size() == 1 ? form(op.inputs[0]).row_stride() : z(plan.gather_columns) * z(group.in_size);
  row.channels_in = group.in_size;
  row.kh = w.kh;
  row.kw = w.kw;
  row.stride = w.sw;
  row.width = shape(op.output).w;
  row.channels = std::min(PANEL, group.out_size - panel * PANEL);
  row.weights = plan.weights.data() + group.weights_at + z(panel) * z(w.kh * w.kw * group.in_size) * PANEL;
  return row;
}

// The first tap of an output row.
const float* ImageRun::window_at(const Operator& op, const OperatorPlan& plan, const GroupPlan& group, int y) const {
  const Window& w = op.window;
  if (plan.groups.size() == 1) return at(op.inputs[0], y * w.sh - w.ph, -w.pw);
  return memory_.gathered.data() +
         z(plan.gather_columns) * (z(plan.gather_rows) * z(group.in_first) + z(y * w.sh) * z(group.in_size));
}

void ImageRun::convolve(const Operator& op, const OperatorPlan& plan) {
  if (is_integer(op)) {
    return for_rows(shape(op.output).h, PIECES_PER_THREAD,
                    [&](int piece, int first, int last) { stem_rows(op, plan, piece, first, last, nullptr, 0); });
  }
  if (plan.groups.size() > 1) gather_groups(op, plan);
  for_pieces(plan, shape(op.output).h, [&](const GroupPlan& group, int panel, int first, int last) {
    ConvRow row = conv_row(op, plan, group, panel);
    for (int y = first; y < last; ++y) {
      row.in = window_at(op, plan, group, y);
      row.end = epilogue(op, plan, group, panel, y);
      kernels_.conv_row(row);
    }
  });
}

// Bands of the pool's rows: the convolution's rows that they need go to memory that stays in the cache, those that the
// next rows need again are moved up, and at the seam of two pieces both make them.
void ImageRun::convolve_and_pool(const Operator& op, const OperatorPlan& plan) {
  const Operator& pool = model_.operators[z(plan.pool)];
  const std::vector<int>& planes = plan_.operators[z(plan.pool)].pack_planes;
  const Shape &made = shape(op.output), &out = shape(pool.output);
  const Window& w = pool.window;
  const std::size_t line = z(made.w) * z(made.c);
  clear_border(pool.output);
  if (plan.groups.size() > 1) gather_groups(op, plan);
  for_rows(out.h, BANDS_PER_THREAD, [&](int piece, int first, int last) {
    float* band = memory_.bands.data() + z(piece) * plan_.band_floats;
    int start = 0, done = 0;  // rows of the convolution in the band
    for (int y = first; y < last; y += plan.band) {
      const int end = std::min(y + plan.band, last);
      const int top = std::max(y * w.sh - w.ph, 0), bottom = std::min((end - 1) * w.sh - w.ph + w.kh, made.h);
      if (done > top) {
        std::memmove(band, band + z(top - start) * line, z(done - top) * line * sizeof(float));
      } else {
        done = top;
      }
      start = top;
      if (is_integer(op)) stem_rows(op, plan, piece, done, bottom, band, start);
      for (const GroupPlan& group : plan.groups) {
        for (int panel = 0; panel < group.panels && !is_integer(op); ++panel) {
          ConvRow row = conv_row(op, plan, group, panel);
          for (int r = done; r < bottom; ++r) {
            row.in = window_at(op, plan, group, r);
            row.end = epilogue(op, plan, group, panel, r);
            row.end.out = band + z(r - start) * line + z(group.out_first + panel * PANEL);
            row.end.out_stride = z(made.c);
            kernels_.conv_row(row);
          }
        }
      }
      done = std::max(done, bottom);
      for (int r = y; r < end; ++r) {
        pool_row(pool, r, band, start);
        pack_rows(planes, r, r + 1);
      }
    }
  });
}

// Each group's part of the input side by side, with its border: what the kernels read.
void ImageRun::gather_groups(const Operator& op, const OperatorPlan& plan) {
  const Shape& in = shape(op.inputs[0]);
  const Window& w = op.window;
  for_rows(plan.gather_rows, PIECES_PER_THREAD, [&](int, int first, int last) {
    for (const GroupPlan& group : plan.groups) {
      const std::size_t size = z(group.in_size), line = z(plan.gather_columns) * size;
      float* to = memory_.gathered.data() + z(plan.gather_rows) * z(plan.gather_columns) * z(group.in_first);
      std::fill_n(to + z(first) * line, z(last - first) * line, 0.0F);
      for (int y = std::max(first, w.ph); y < std::min(last, w.ph + in.h); ++y) {
        for (int x = 0; x < in.w; ++x) {
          std::copy_n(at(op.inputs[0], y - w.ph, x) + group.in_first, size, to + z(y) * line + z(x + w.pw) * size);
        }
      }
    }
  });
}

void ImageRun::convolve_binary(const Operator& op, const OperatorPlan& plan) {
  const Shape& out = shape(op.output);
  const CodePlane& plane = plan_.planes[z(plan.plane)];
  const Window& w = op.window;
  const std::size_t outputs = z(out.h) * z(out.w);
  if (op.zero_one) count_ones(op, plan, plane);
  for_pieces(plan, out.h, [&](const GroupPlan& group, int panel, int first, int last) {
    const int g = static_cast<int>(&group - plan.groups.data());
    static thread_local AlignedArray<std::uint64_t> windows;  // grows to what the widest map needs, and stays
    const std::size_t words = z(words_of_taps(w.kh * w.kw, plan.taps_a_word));
    if (plan.taps_a_word > 1 && windows.size() < z(out.w) * words) {
      windows = AlignedArray<std::uint64_t>(z(out.w) * words);
    }
    BConvRow row{};
    row.words = plane.groups[z(g)].words;
    row.row_stride = z(plane.columns) * z(row.words);
    row.kh = w.kh;
    row.kw = w.kw;
    row.stride = w.sw;
    row.width = out.w;
    row.channels = std::min(PANEL, group.out_size - panel * PANEL);
    row.zero_one = op.zero_one;
    row.border = plan.column_class.data();
    row.weights = plan.bits.data() + group.weights_at + z(panel) * z(w.kh * w.kw * row.words) * PANEL;
    for (int y = first; y < last; ++y) {
      row.in = plane_at(plane, g, y * w.sh, 0);
      if (op.zero_one) {
        row.ones = memory_.scratch.data() + z(g) * outputs + z(y) * z(out.w);
      } else {
        const std::size_t classes = z(plan.row_classes) * z(plan.column_classes);
        row.base = plan.base.data() +
                   (z(group.first_panel + panel) * classes + z(plan.row_class[z(y)]) * z(plan.column_classes)) * PANEL;
      }
      row.end = epilogue(op, plan, group, panel, y);
      if (plan.taps_a_word == 1) {
        kernels_.bconv_row(row);
        continue;
      }
      BConvRow merged = row;
      merged.weights = plan.merged.data() + z(group.first_panel + panel) * words * PANEL;
      merge_row(merged, plan.taps_a_word, windows.data());
      kernels_.bconv_row(merged);
    }
  });
}

// Ones in every window, shared by all output channels of a group: the AND form at the price of one.
void ImageRun::count_ones(const Operator& op, const OperatorPlan& plan, const CodePlane& plane) {
  const Shape& out = shape(op.output);
  const Window& w = op.window;
  const std::size_t outputs = z(out.h) * z(out.w);
  std::int32_t* windows = memory_.scratch.data();
  std::int32_t* columns = windows + outputs * plan.groups.size();
  for_rows(out.h, PIECES_PER_THREAD, [&](int, int first, int last) {
    for (int g = 0; g < static_cast<int>(plan.groups.size()); ++g) {
      OnesRow row{};
      row.words = plane.groups[z(g)].words;
      row.row_stride = z(plane.columns) * z(row.words);
      row.kh = w.kh;
      row.kw = w.kw;
      row.stride = w.sw;
      row.width = out.w;
      for (int y = first; y < last; ++y) {
        row.in = plane_at(plane, g, y * w.sh, 0);
        row.columns = columns + z(y) * z(plane.columns);
        row.ones = windows + z(g) * outputs + z(y) * z(out.w);
        kernels_.rows.ones_row(row);
      }
    }
  });
}

}  // namespace ftbnn
