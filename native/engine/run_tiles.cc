// Binary convolutions as products of bytes, where the CPU has tiles.
#include "engine/run.h"

namespace ftbnn {

void ImageRun::convolve_tiles(const Operator& op, const OperatorPlan& plan) {
  const Shape& out = shape(op.output);
  const CodePlane& plane = plan_.planes[z(plan.plane)];
  const Window& w = op.window;
  const auto image = [&](int g) {
    CodeImage image = code_image(model_, op, plane, g);
    image.codes = plane_at(plane, g, 0, 0);
    image.bytes = memory_.code_bytes.data() + plane.groups[z(g)].bytes_at;
    return image;
  };
  for_rows(plane.rows, PIECES_PER_THREAD, [&](int, int first, int last) {
    for (int g = 0; g < op.groups; ++g) {
      if (!plane.groups[z(g)].is_copy) kernels_.expand_rows(image(g), first, last);
    }
  });
  for_pieces(plan, out.h, [&](const GroupPlan& group, int panel, int first, int last) {
    static thread_local AlignedArray<std::uint8_t> scratch;  // grows to what the deepest convolution needs, and stays
    BConvRows rows{};
    rows.image = image(static_cast<int>(&group - plan.groups.data()));
    const std::size_t steps = z(w.kh) * z(w.kw) * z(rows.image.words);
    if (scratch.size() < scratch_bytes(steps)) scratch = AlignedArray<std::uint8_t>(scratch_bytes(steps));
    rows.weights = plan.bits.data() + group.weights_at + z(panel) * steps * PANEL;
    rows.kh = w.kh;
    rows.kw = w.kw;
    rows.width = out.w;
    rows.first = first;
    rows.last = last;
    rows.channels = std::min(PANEL, group.out_size - panel * PANEL);
    rows.scratch = scratch.data();
    rows.end = epilogue(op, plan, group, panel, first);
    if (rows.end.shortcut != nullptr) rows.shortcut_row = form(op.tail.shortcut).row_stride();
    if (rows.end.out != nullptr) rows.out_row = form(op.output).row_stride();
    if (rows.end.codes != nullptr) {
      rows.codes_row = rows.end.codes_stride * z(plan_.planes[z(plan.direct_plane)].columns);
    }
    kernels_.bconv_rows(rows);
  });
}

}  // namespace ftbnn
