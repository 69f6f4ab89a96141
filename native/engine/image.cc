#include "engine/image.h"

#include <atomic>

namespace ftbnn {

std::uint64_t Image::new_pass() {
  static std::atomic<std::uint64_t> passes{0};
  return ++passes;
}

void Image::clear_border(int value) const {
  const RealForm& form = forms().real(value);
  const Shape& s = shape(value);
  if (!form.is_needed || !form.has_border(s)) return;
  const Border& border = form.border;
  float* rows = memory_.arena.data() + form.offset;
  const std::size_t line = form.row(), left = z(border.left) * z(s.c), inside = z(s.w) * z(s.c);
  std::fill_n(rows, z(border.top) * line, 0.0F);
  for (int y = border.top; y < border.top + s.h; ++y) {
    std::fill_n(rows + z(y) * line, left, 0.0F);
    std::fill_n(rows + z(y) * line + left + inside, line - left - inside, 0.0F);
  }
  std::fill_n(rows + z(border.top + s.h) * line, z(border.rows - border.top - s.h) * line, 0.0F);
}

void Image::pack(int value, int first, int last) const {
  const Shape& s = shape(value);
  for (const int number : forms().packed(value)) {
    const CodeForm& form = forms().code(number);
    for (int y = first; y < last; ++y) {
      const float* threshold = form.threshold;
      std::uint64_t* to = codes(number, y, 0);
      for (int copy = 0; copy < form.copies; ++copy, to += form.copy_words()) {
        between().sign_row({real(value, y, 0), z(s.c), threshold, s.w, s.c, to, form.words()});
        if (threshold != nullptr) threshold += s.c;
      }
    }
  }
}

void Image::pack_all(int value) {
  if (forms().packed(value).empty()) return;
  for_rows(shape(value).h, [&](int first, int last, int) { pack(value, first, last); });
}

template <typename Convert>
void Image::fill_input(const Convert& convert) {
  clear_border(0);
  for_rows(model_.input().h, [&](int first, int last, int) {
    for (int y = first; y < last; ++y) {
      convert(y, real(0, y, 0));
      pack(0, y, y + 1);
    }
  });
}

void Image::load(const float* image) {
  const Shape& in = model_.input();
  const std::size_t plane = z(in.h) * z(in.w);
  has_pixels_ = false;
  fill_input([&](int y, float* to) { between().interleave_row({image + z(y) * z(in.w), plane, in.w, in.c, to}); });
}

void Image::load(const std::uint8_t* image) {
  const Shape& in = model_.input();
  const std::size_t line = z(in.w) * z(in.c);
  has_pixels_ = plan_.stem() != nullptr;
  if (has_pixels_) {
    return for_rows(in.h, [&](int first, int last, int) {
      for (int y = first; y < last; ++y) plan_.stem()->load(y, image, memory_.pixels.data());
    });
  }
  fill_input([&](int y, float* to) {
    between().normalise_row(
        {image + z(y) * line, plan_.pixel_scale(), plan_.pixel_shift(), static_cast<int>(line), to});
  });
}

void Image::store(float* output) const {
  const int value = model_.operators.back().output;
  const Shape& out = shape(value);
  if (out.h * out.w == 1) {
    std::copy_n(real(value, 0, 0), out.c, output);
    return;
  }
  for (int y = 0; y < out.h; ++y) {
    for (int x = 0; x < out.w; ++x) {
      const float* from = real(value, y, x);
      for (int c = 0; c < out.c; ++c) output[(z(c) * z(out.h) + z(y)) * z(out.w) + z(x)] = from[c];
    }
  }
}

}  // namespace ftbnn
