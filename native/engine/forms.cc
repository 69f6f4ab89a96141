#include "engine/forms.h"

#include <algorithm>
#include <limits>

namespace ftbnn {

namespace {

constexpr std::size_t MAX_RUNS = 16;  // a map in more pieces is rather carried out
constexpr std::uint64_t LINE_FLOATS = CACHE_LINE / sizeof(float), LINE_WORDS = CACHE_LINE / sizeof(std::uint64_t);

std::size_t z(int value) { return static_cast<std::size_t>(value); }

std::uint64_t up(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

}  // namespace

Forms::Forms(const Model& model)
    : model_(model), reals_(model.values.size()), lives_(model.values.size()), packed_(model.values.size()) {
  for (std::size_t v = 0; v < model.values.size(); ++v) {
    const Shape& shape = model.values[v];
    sources_.push_back({static_cast<int>(v), {{0, shape.c}}});
    reals_[v].border = {0, 0, shape.h, shape.w};
    reals_[v].channels = shape.c;
  }
}

void Forms::set_map(int value, const std::int32_t* map, int from) {
  const Source& before = source(from);
  Source to{before.value, {}};
  const auto append = [&to](int first, int count) {
    if (!to.runs.empty() && to.runs.back().first + to.runs.back().count == first) {
      to.runs.back().count += count;
    } else {
      to.runs.push_back({first, count});
    }
  };
  const int channels = model_.values[z(value)].c;
  for (int c = 0, next; c < channels; c = next) {
    for (next = c + 1; next < channels && map[next] == map[next - 1] + 1;) ++next;
    int start = map[c], left = next - c;  // of the other value's channels, which may themselves be runs
    for (const Run& run : before.runs) {
      if (start < run.count && left > 0) {
        const int count = std::min(left, run.count - start);
        append(run.first + start, count);
        left -= count;
        start = 0;
      } else {
        start -= run.count;
      }
    }
    if (to.runs.size() > MAX_RUNS) return;
  }
  sources_[z(value)] = std::move(to);
}

void Forms::touch(int value) {
  Life& life = lives_[z(value)];
  life.dies = std::max(life.dies, step_);
  life.born = life.born < 0 ? step_ : std::min(life.born, step_);
}

void Forms::widen(Border& border, const Border& wanted) const {
  const int below = std::max(border.rows - border.top, wanted.rows - wanted.top);
  const int beside = std::max(border.columns - border.left, wanted.columns - wanted.left);
  border.top = std::max(border.top, wanted.top);
  border.left = std::max(border.left, wanted.left);
  border.rows = border.top + below;
  border.columns = border.left + beside;
}

void Forms::read_real(int value, const Border& border) {
  RealForm& form = reals_[z(value)];
  form.is_needed = true;
  widen(form.border, border);
  touch(value);
}

void Forms::read_source(int value) { read_real(source(value).value); }

// The thresholds of equal blobs are the same ones in a file, whichever channels they are of.
bool Forms::are_same_codes(const float* threshold, const std::vector<Run>& runs, const float* other_threshold,
                           const std::vector<Run>& other_runs) {
  return threshold == other_threshold && (threshold == nullptr || runs == other_runs);
}

int Forms::read_codes(int value, const float* threshold, const Border& border) {
  const Source& from = source(value);
  auto form = std::find_if(codes_.begin(), codes_.end(), [&](const CodeForm& other) {
    return other.value == from.value && are_same_codes(other.threshold, other.runs, threshold, from.runs);
  });
  if (form == codes_.end()) {
    const Shape& shape = model_.values[z(from.value)];
    codes_.push_back({from.value, threshold, false, {shape.c, 1}, 0, {0, 0, shape.h, shape.w}, {}, {}, 1});
    form = std::prev(codes_.end());
    if (threshold != nullptr) share_copies(*form, from.runs);
  }
  widen(form->border, border);
  return static_cast<int>(form - codes_.begin());
}

// Each run in a copy behind those that its channels are in already.
void Forms::share_copies(CodeForm& form, const std::vector<Run>& runs) {
  form.runs = runs;
  std::vector<int> next(z(form.channels.channels), 0);
  for (const Run& run : runs) {
    const auto first = next.begin() + run.first, last = first + run.count;
    const int copy = *std::max_element(first, last);
    std::fill(first, last, copy + 1);
    form.copy_of.push_back(copy);
    form.copies = std::max(form.copies, copy + 1);
  }
}

// Codes that nobody writes from registers are made of the real form.
bool Forms::is_read(int value) const {
  return real(value).is_needed ||
         std::any_of(codes_.begin(), codes_.end(), [&](const CodeForm& form) { return form.value == value; });
}

void Forms::write(int value) { touch(value); }

void Forms::pack(int form) {
  const int value = codes_[z(form)].value;
  packed_[z(value)].push_back(form);
  reals_[z(value)].is_needed = true;
}

std::uint64_t Forms::threshold_bytes() const {
  std::uint64_t bytes = 0;
  for (const CodeForm& form : codes_) {
    bytes += form.threshold != nullptr ? z(form.copies) * z(form.channels.channels) * sizeof(float) : 0;
  }
  return bytes;
}

void Forms::keep_thresholds() {
  thresholds_.reserve(codes_.size());
  for (CodeForm& form : codes_) {
    if (form.threshold == nullptr) continue;
    const std::size_t channels = z(form.channels.channels);
    // Nothing is above where a copy has no threshold: bits that nobody reads are 0.
    std::vector<float>& kept =
        thresholds_.emplace_back(z(form.copies) * channels, std::numeric_limits<float>::infinity());
    for (std::size_t k = 0; k < form.runs.size(); ++k) {
      const Run& run = form.runs[k];
      std::copy_n(form.threshold, run.count, kept.data() + z(form.copy_of[k]) * channels + z(run.first));
      form.threshold += run.count;
    }
    form.threshold = kept.data();
  }
}

std::vector<int> Forms::join_replaced() {
  std::vector<int> place(reals_.size());
  for (std::size_t v = 0; v < place.size(); ++v) place[v] = static_cast<int>(v);
  for (auto pair = replaces_.rbegin(); pair != replaces_.rend(); ++pair) {
    const auto [value, other] = *pair;
    const RealForm &to = real(value), &from = real(other);
    const bool fits = to.is_needed && from.is_needed && to.channels == from.channels && to.border == from.border;
    if (other == 0 || !fits || lives_[z(other)].dies != lives_[z(value)].born) continue;
    place[z(value)] = place[z(other)];
    lives_[z(place[z(other)])].dies = lives_[z(value)].dies;
  }
  return place;
}

void Forms::place(int steps) {
  for (CodeForm& form : codes_) {
    form.offset = static_cast<std::size_t>(code_words_);
    code_words_ += up(form.size(), LINE_WORDS);
  }
  lives_[0].born = -1;
  lives_[0].dies = std::max(lives_[0].dies, 0);
  lives_[z(model_.operators.back().output)].dies = steps;
  const std::vector<int> same = join_replaced();
  std::vector<int> order;
  for (std::size_t v = 0; v < reals_.size(); ++v) {
    if (reals_[v].is_needed && same[v] == static_cast<int>(v)) order.push_back(static_cast<int>(v));
  }
  const auto size = [this](int value) { return up(reals_[z(value)].size() + LINE_FLOATS, LINE_FLOATS); };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return size(a) > size(b); });
  std::vector<int> placed;
  for (const int value : order) {
    const Life& life = lives_[z(value)];
    std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;
    for (const int other : placed) {
      const Life& its = lives_[z(other)];
      const std::uint64_t at = reals_[z(other)].offset;
      if (life.born <= its.dies && its.born <= life.dies) taken.emplace_back(at, at + size(other));
    }
    std::sort(taken.begin(), taken.end());
    std::uint64_t at = 0;
    for (const auto& [first, last] : taken) {
      if (at + size(value) <= first) break;
      at = std::max(at, last);
    }
    reals_[z(value)].offset = static_cast<std::size_t>(at);
    arena_floats_ = std::max(arena_floats_, at + size(value));
    placed.push_back(value);
  }
  for (std::size_t v = 0; v < reals_.size(); ++v) reals_[v].offset = reals_[z(same[v])].offset;
}

}  // namespace ftbnn
