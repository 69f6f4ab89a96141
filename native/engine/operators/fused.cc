#include "engine/operators/fused.h"

namespace ftbnn {

FusedStep::FusedStep(const Operator& op, const Planning& planning, const Groups& panels)
    : Step(op, planning), groups_(panels), panels_(panels_of(panels)) {}

bool FusedStep::declare(Forms& forms) {
  if (op_.tail.shortcut >= 0) forms.read_real(op_.tail.shortcut);
  if (has_curve()) forms.read_real(op_.output);
  forms.write(op_.output);
  return true;
}

bool FusedStep::direct_codes(CodeForm& form, int number) {
  if (direct_ >= 0 || has_curve()) return false;
  direct_ = number;
  copies_ = form.copies;
  form.channels = groups_;
  return true;
}

Sizes FusedStep::sizes() const { return {panels_.size() * PANEL * (THRESHOLD + z(copies_)) * sizeof(float), 0, 0}; }

AlignedArray<float> FusedStep::by_panels(const float* from, float absent, int copies) const {
  AlignedArray<float> all(z(copies) * panels_.size() * PANEL);
  float* to = all.data();
  for (int copy = 0; copy < copies; ++copy) {
    for (const Panel& panel : panels_) {
      for (int c = 0; c < panel.channels; ++c) to[c] = from != nullptr ? from[panel.first + c] : absent;
      to += PANEL;
    }
    if (from != nullptr) from += out().c;
  }
  return all;
}

void FusedStep::prepare(const Forms& forms) {
  const Tail& tail = op_.tail;
  numbers_[SCALE] = by_panels(tail.scale, 1);
  numbers_[SHIFT] = by_panels(tail.shift, 0);
  numbers_[LEFT] = by_panels(tail.left, 1);
  numbers_[RIGHT] = by_panels(tail.right, 1);
  if (tail.after != nullptr) numbers_[AFTER] = by_panels(tail.after, 0);
  if (tail.first_left != nullptr) {
    numbers_[FIRST_LEFT] = by_panels(tail.first_left, 1);
    numbers_[FIRST_RIGHT] = by_panels(tail.first_right, 1);
  }
  const float* threshold = direct_ >= 0 ? forms.code(direct_).threshold : nullptr;
  if (threshold != nullptr) numbers_[THRESHOLD] = by_panels(threshold, 0, copies_);
}

Epilogue FusedStep::epilogue(const Image& image, int panel, int y) const {
  const std::size_t first = z(panel) * PANEL;
  const int channel = panels_[z(panel)].first;
  const auto numbers = [&](Numbers which) {
    return numbers_[which].size() != 0 ? numbers_[which].data() + first : nullptr;
  };
  Epilogue end{};
  end.scale = numbers(SCALE);
  end.shift = numbers(SHIFT);
  end.first_left = numbers(FIRST_LEFT);
  end.first_right = numbers(FIRST_RIGHT);
  end.left = numbers(LEFT);
  end.right = numbers(RIGHT);
  end.after = has_curve() ? nullptr : numbers(AFTER);
  end.threshold = numbers(THRESHOLD);
  end.act = op_.tail.act;
  end.low = op_.tail.low;
  end.high = op_.tail.high;
  if (op_.tail.shortcut >= 0) {
    end.shortcut = image.real(op_.tail.shortcut, y, 0) + channel;
    end.shortcut_stride = z(out().c);
    end.shortcut_row = image.forms().real(op_.tail.shortcut).row();
  }
  if (image.forms().real(op_.output).is_needed) {
    end.out = image.real(op_.output, y, 0) + channel;
    end.out_stride = z(out().c);
    end.out_row = image.forms().real(op_.output).row();
  }
  if (direct_ >= 0) {
    const CodeForm& form = image.forms().code(direct_);
    end.codes = reinterpret_cast<std::uint32_t*>(image.codes(direct_, y, 0)) + panel;
    end.codes_stride = 2 * form.words();
    end.codes_row = 2 * form.row();
    end.copies = form.copies - 1;
    end.copy_codes = 2 * form.copy_words();
    end.copy_threshold = panels_.size() * PANEL;
  }
  return end;
}

void FusedStep::finish(Image& image) const {
  if (has_curve()) {
    const float* after = op_.tail.after != nullptr ? numbers_[AFTER].data() : nullptr;
    image.for_rows(out().h, [&](int first, int last, int) {
      for (int y = first; y < last; ++y) {
        float* row = image.real(op_.output, y, 0);
        image.between().bend(op_.tail.curve, row, z(out().w) * z(out().c));
        for (std::size_t k = 0; after != nullptr && k < panels_.size(); ++k) {
          for (int x = 0; x < out().w; ++x) {
            float* to = row + z(x) * z(out().c) + z(panels_[k].first);
            for (int c = 0; c < panels_[k].channels; ++c) to[c] += after[k * PANEL + z(c)];
          }
        }
      }
    });
  }
  image.pack_all(op_.output);
}

}  // namespace ftbnn
