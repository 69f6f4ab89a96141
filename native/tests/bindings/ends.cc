#include "tests/bindings/ends.h"

#include <algorithm>
#include <iterator>

namespace nb = nanobind;

namespace ftbnn {

Act act_named(const std::string& name) {
  constexpr const char* names[] = {"none", "relu", "prelu", "fprelu", "clamp"};
  const auto found = std::find(std::begin(names), std::end(names), name);
  require(found != std::end(names), "act must be none, relu, prelu, fprelu or clamp");
  return static_cast<Act>(found - std::begin(names));
}

Ends::Ends(const nb::dict& given, const Groups& out, int rows, int width) : given_(given), panels_(panels_of(out)) {
  scale_ = by_panels("scale", 1, true);
  shift_ = by_panels("shift", 0, true);
  left_ = by_panels("left", 1, true);
  right_ = by_panels("right", 1, true);
  after_ = by_panels("after", 0, false);
  first_left_ = by_panels("first_left", 1, false);
  first_right_ = by_panels("first_right", 1, false);
  base_.copies = given.contains("copies") ? nb::cast<int>(given["copies"]) : 0;
  require(base_.copies >= 0, "copies are 0 or more");
  const auto times = static_cast<std::size_t>(base_.copies) + 1;
  threshold_ = by_panels("threshold", 0, false, base_.copies + 1);
  base_.copy_codes = panels_.size();
  base_.copy_threshold = panels_.size() * PANEL;
  base_.act = act_named(given.contains("act") ? nb::cast<std::string>(given["act"]) : "none");
  base_.low = given.contains("low") ? nb::cast<float>(given["low"]) : 0;
  base_.high = given.contains("high") ? nb::cast<float>(given["high"]) : 0;
  const auto map = [&](const char* name, auto*& data, std::size_t& stride, std::size_t& row, std::size_t least) {
    if (!given.contains(name) || given[name].is_none()) return;
    using T = std::remove_reference_t<decltype(*data)>;
    const auto array = nb::cast<Strided<T, -1, -1, -1>>(given[name], false);
    require(extent(array, 0) == rows && extent(array, 1) == width && array.shape(2) >= least && step(array, 2) == 1,
            "results and shortcut must be [rows][width][>= channels]");
    data = array.data();
    stride = step(array, 1);
    row = step(array, 0);
  };
  const auto channels = static_cast<std::size_t>(out.channels);
  map("shortcut", base_.shortcut, base_.shortcut_stride, base_.shortcut_row, channels);
  map("out", base_.out, base_.out_stride, base_.out_row, channels);
  map("codes", base_.codes, base_.codes_stride, base_.codes_row, times * panels_.size());
}

AlignedArray<float> Ends::by_panels(const char* name, float absent, bool needed, int times) const {
  const bool has = given_.contains(name) && !given_[name].is_none();
  if (!has && !needed) return {};
  AlignedArray<float> all(static_cast<std::size_t>(times) * panels_.size() * PANEL);
  std::optional<Packed<float, -1>> from;
  if (has) from = nb::cast<Packed<float, -1>>(given_[name], false);
  const int channels = panels_.back().first + panels_.back().channels;
  float* to = all.data();
  for (int time = 0; time < times; ++time) {
    for (const Panel& panel : panels_) {
      for (int c = 0; c < panel.channels; ++c) {
        const auto at = static_cast<std::size_t>(time * channels + panel.first + c);
        require(!from || at < from->shape(0), "numbers of an epilogue must be [channels]");
        to[c] = from ? from->data()[at] : absent;
      }
      to += PANEL;
    }
  }
  return all;
}

Epilogue Ends::at(int panel) const {
  const std::size_t first = static_cast<std::size_t>(panel) * PANEL;
  const auto channel = static_cast<std::size_t>(panels_[static_cast<std::size_t>(panel)].first);
  const auto numbers = [&](const AlignedArray<float>& of) { return of.size() != 0 ? of.data() + first : nullptr; };
  Epilogue end = base_;
  end.scale = numbers(scale_);
  end.shift = numbers(shift_);
  end.left = numbers(left_);
  end.right = numbers(right_);
  end.after = numbers(after_);
  end.first_left = numbers(first_left_);
  end.first_right = numbers(first_right_);
  end.threshold = numbers(threshold_);
  if (end.shortcut != nullptr) end.shortcut += channel;
  if (end.out != nullptr) end.out += channel;
  if (end.codes != nullptr) end.codes += panel;
  return end;
}

}  // namespace ftbnn
