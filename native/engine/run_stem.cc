// 8-bit images through the integer stem.
#include "engine/run.h"

namespace ftbnn {

// Pixels less 128, inside a border of zeros that nothing ever overwrites.
void ImageRun::load_pixels(const std::uint8_t* image) {
  const Shape& in = model_.input();
  const Window& w = model_.operators[z(plan_.stem.index)].window;
  const std::size_t line = z(in.w) * z(in.c), stride = z(plan_.stem.columns) * z(in.c);
  for_rows(in.h, PIECES_PER_THREAD, [&](int, int first, int last) {
    for (int y = first; y < last; ++y) {
      const std::uint8_t* from = image + z(y) * line;
      std::int8_t* to = memory_.pixels.data() + z(y + w.ph) * stride + z(w.pw) * z(in.c);
      for (std::size_t k = 0; k < line; ++k) to[k] = static_cast<std::int8_t>(from[k] ^ 0x80);
    }
  });
}

// Rows [first, last) of the convolution: into `band`, which starts at row `start`, or where they belong.
void ImageRun::stem_rows(const Operator& op, const OperatorPlan& plan, int piece, int first, int last, float* band,
                         int start) const {
  const StemPlan& stem = plan_.stem;
  const Shape &in = model_.input(), &out = shape(op.output);
  const GroupPlan& group = plan.groups.front();
  const std::size_t classes = z(stem.row_classes) * z(stem.column_classes), line = z(out.w) * z(out.c);
  PatchRow patch{};
  patch.row_stride = z(stem.columns) * z(in.c);
  patch.kh = op.window.kh;
  patch.run = stem.run;
  patch.step = stem.step;
  patch.width = out.w;
  patch.depth = stem.depth;
  patch.patches = memory_.patches.data() + z(piece) * stem.patch_bytes;
  for (int y = first; y < last; ++y) {
    patch.in = memory_.pixels.data() + z(y * op.window.sh) * patch.row_stride;
    kernels_.patch_row(patch);
    for (int panel = 0; panel < group.panels; ++panel) {
      SlicedRow row{patch.patches, stem.depth, out.w, std::min(PANEL, out.c - panel * PANEL), {}, {}, {}, {}};
      row.weights = stem.weights.data() + z(panel) * SLICES * z(stem.depth) * PANEL;
      row.offset = stem.offset.data() + (z(panel) * classes + z(stem.row_class[z(y)]) * z(stem.column_classes)) * PANEL;
      row.border = stem.column_class.data();
      row.end = epilogue(op, plan, group, panel, y);
      row.end.scale = stem.scale.data() + z(panel) * PANEL;
      if (band != nullptr) {
        row.end.out = band + z(y - start) * line + z(panel) * PANEL;
        row.end.out_stride = z(out.c);
      }
      kernels_.sliced_row(row);
    }
  }
}

}  // namespace ftbnn
