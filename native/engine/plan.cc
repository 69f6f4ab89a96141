#include "engine/plan.h"

#include <algorithm>

#include "engine/limits.h"

namespace ftbnn {

namespace {

constexpr std::size_t LINE_FLOATS = CACHE_LINE / sizeof(float), LINE_WORDS = CACHE_LINE / sizeof(std::uint64_t);
constexpr std::size_t BAND_FLOATS = std::size_t{1}
                                    << 16;  // 256 KiB: a quarter of the smallest L2 cache worth tuning for
constexpr std::size_t MAX_BAND_FLOATS = std::size_t{1} << 20;
constexpr std::size_t MAX_RUNS = 16;  // a map in more pieces is rather carried out

std::size_t z(int value) { return static_cast<std::size_t>(value); }

bool is_pool(const Operator& op) { return op.kind == Kind::max_pool || op.kind == Kind::avg_pool; }

// Rows (or columns) that a window touches: the padded image, or more where the last window reaches past it.
int reach(int out, int stride, int kernel, int padding, int size) {
  return std::max((out - 1) * stride + kernel, padding + size);
}

void append(std::vector<Run>& runs, Run run) {
  if (!runs.empty() && runs.back().first + runs.back().count == run.first) {
    runs.back().count += run.count;
  } else {
    runs.push_back(run);
  }
}

// Channels [first, first + count) of what the runs hold, as runs of the same value.
std::vector<Run> slice(const std::vector<Run>& runs, int first, int count) {
  std::vector<Run> part;
  for (const Run& run : runs) {
    const int from = std::max(first, 0), to = std::min(first + count, run.count);
    if (from < to) append(part, {run.first + from, to - from});
    first -= run.count;
  }
  return part;
}

class Planner {
 public:
  explicit Planner(const Model& model) : model_(model) {}

  Plan make() {
    plan_.values.resize(model_.values.size());
    plan_.operators.resize(model_.operators.size());
    sources();
    for (std::size_t k = 0; k < model_.operators.size(); ++k) {
      const Operator& op = model_.operators[k];
      if (is_convolution(op) || op.kind == Kind::pointwise) arrange(model_, op, plan_.operators[k], weight_room_);
    }
    code_planes();
    pools();
    real_forms();
    pixels();
    arena();
    return std::move(plan_);
  }

 private:
  const Shape& of(int value) const { return model_.values[z(value)]; }
  const Source& source(int value) const { return plan_.sources[z(value)]; }

  void sources() {
    for (std::size_t v = 0; v < model_.values.size(); ++v) {
      plan_.sources.push_back({static_cast<int>(v), {{0, model_.values[v].c}}});
    }
    for (const Operator& op : model_.operators) {
      if (op.kind != Kind::channels) continue;
      const Source& from = source(op.inputs[0]);
      Source to{from.value, {}};
      for (int c = 0; c < of(op.output).c && to.runs.size() <= MAX_RUNS; ++c) {
        append(to.runs, slice(from.runs, op.map[c], 1).front());
      }
      if (to.runs.size() <= MAX_RUNS) plan_.sources[z(op.output)] = std::move(to);
    }
  }

  // A plane for every binary convolution, and who writes it.
  void code_planes() {
    for (std::size_t k = 0; k < model_.operators.size(); ++k) {
      const Operator& op = model_.operators[k];
      if (op.kind != Kind::bconv) continue;
      const Shape &in = of(op.inputs[0]), &out = of(op.output);
      const Source& from = source(op.inputs[0]);
      CodePlane plane;
      plane.value = from.value;
      plane.top = op.window.ph;
      plane.left = op.window.pw;
      plane.rows = reach(out.h, op.window.sh, op.window.kh, op.window.ph, in.h);
      plane.columns = reach(out.w, op.window.sw, op.window.kw, op.window.pw, in.w);
      const Groups groups{in.c, op.groups};
      const std::size_t positions = z(plane.rows) * z(plane.columns);
      std::size_t bytes = 0, scratch = 0;
      for (int g = 0; g < op.groups; ++g) {
        CodeGroup group{plan_.code_words, bytes, words_of(groups.size(g)),
                        slice(from.runs, groups.first(g), groups.size(g)), false};
        const auto same = std::find_if(plane.groups.begin(), plane.groups.end(),
                                       [&](const CodeGroup& other) { return other.runs == group.runs; });
        group.is_copy = same != plane.groups.end();
        if (group.is_copy) {
          group.at = same->at;
          group.bytes_at = same->bytes_at;
        } else {
          plan_.code_words += round_up(positions * z(group.words), LINE_WORDS);
        }
        if (plan_.code_words > MAX_ARENA_FLOATS)
          throw FormatError("the codes of this network would not fit into memory");
        const bool is_copy = group.is_copy;
        scratch = std::max(scratch, scratch_bytes(z(op.window.kh) * z(op.window.kw) * z(group.words)));
        plane.groups.push_back(std::move(group));
        if (!is_copy) bytes += code_bytes(code_image(model_, op, plane, g));
      }
      if (suits_tiles(z(out.h) * z(out.w), std::max(bytes, scratch))) {
        plan_.operators[k].suits_tiles = true;
        plan_.tile_bytes = std::max(plan_.tile_bytes, bytes);
      }
      plan_.operators[k].plane = static_cast<int>(plan_.planes.size());
      if (op.zero_one) {
        plan_.scratch_ints =
            std::max(plan_.scratch_ints, z(out.h) * z(plane.columns) + z(out.h) * z(out.w) * z(op.groups));
      }
      plan_.planes.push_back(std::move(plane));
    }
    for (std::size_t p = 0; p < plan_.planes.size(); ++p) assign_writer(static_cast<int>(p));
  }

  void assign_writer(int p) {
    CodePlane& plane = plan_.planes[z(p)];
    if (plane.value == 0) {
      plan_.input_planes.push_back(p);
      return;
    }
    for (std::size_t k = 0; k < model_.operators.size(); ++k) {
      const Operator& op = model_.operators[k];
      if (op.output != plane.value) continue;
      OperatorPlan& writer = plan_.operators[k];
      if (is_convolution(op) && writer.direct_plane < 0 && set_targets(writer, plane)) {
        writer.direct_plane = p;
        plane.is_direct = true;
      } else {
        writer.pack_planes.push_back(p);
      }
    }
  }

  // A panel's 32 signs are half a word of the plane: possible if every panel has one place, starts on a half there, and
  // shares it with none.
  bool set_targets(OperatorPlan& writer, const CodePlane& plane) const {
    std::vector<CodeTarget> targets(z(writer.panels));
    for (const GroupPlan& made : writer.groups) {
      for (int panel = 0; panel < made.panels; ++panel) {
        const int first = made.out_first + panel * PANEL, end = std::min(first + PANEL, made.out_first + made.out_size);
        CodeTarget& target = targets[z(made.first_panel + panel)];
        for (std::size_t g = 0; g < plane.groups.size(); ++g) {
          const CodeGroup& group = plane.groups[g];
          if (group.is_copy) continue;
          if (group.runs.size() != 1) return false;
          const Run& run = group.runs.front();
          const int last = run.first + run.count;
          if (end <= run.first || first >= last) continue;
          const bool fits = first >= run.first && (first - run.first) % PANEL == 0 && end <= last;
          if (!fits || (end - first < PANEL && end != last) || target.group >= 0) return false;
          target = {static_cast<int>(g), (first - run.first) / PANEL};
        }
      }
    }
    writer.targets = std::move(targets);
    return true;
  }

  // A real convolution whose output one pool alone reads does the pool too, a few rows at a time.
  void pools() {
    std::vector<int> readers(model_.values.size(), 0);
    ++readers[z(model_.operators.back().output)];
    for (const CodePlane& plane : plan_.planes) ++readers[z(plane.value)];
    for (const Operator& op : model_.operators) {
      for (const int input : op.inputs) ++readers[z(input)];
      if (op.tail.shortcut >= 0) ++readers[z(op.tail.shortcut)];
    }
    for (std::size_t k = 0; k < model_.operators.size(); ++k) {
      const Operator& op = model_.operators[k];
      if (op.kind != Kind::conv || readers[z(op.output)] != 1) continue;
      for (std::size_t j = k + 1; j < model_.operators.size(); ++j) {
        const Operator& pool = model_.operators[j];
        if (!is_pool(pool) || pool.inputs[0] != op.output) continue;
        OperatorPlan& plan = plan_.operators[k];
        const Shape& made = of(op.output);
        const std::size_t row = z(made.w) * z(made.c);
        const auto fitting = static_cast<int>(BAND_FLOATS / row);
        const int band = std::clamp((fitting - pool.window.kh) / pool.window.sh + 1, 1, of(pool.output).h);
        const int rows = std::min(made.h, (band - 1) * pool.window.sh + pool.window.kh);
        if (z(rows) * row > MAX_BAND_FLOATS) continue;
        plan.pool = static_cast<int>(j);
        plan.band = band;
        plan_.operators[j].is_done = true;
        plan_.band_floats = std::max(plan_.band_floats, round_up(z(rows) * row, LINE_FLOATS));
      }
    }
  }

  void real_forms() {
    for (std::size_t v = 0; v < plan_.values.size(); ++v) {
      RealForm& form = plan_.values[v];
      const Shape& shape = model_.values[v];
      form.rows = shape.h;
      form.columns = shape.w;
      form.channels = shape.c;
    }
    const auto need = [this](int value) -> RealForm& {
      RealForm& form = plan_.values[z(value)];
      form.is_needed = true;
      return form;
    };
    need(0);
    need(model_.operators.back().output);
    for (const CodePlane& plane : plan_.planes) {
      if (!plane.is_direct) need(plane.value);
    }
    // From the last operator back: a channel map reads its input only where somebody needs its output.
    for (std::size_t k = model_.operators.size(); k-- > 0;) {
      const Operator& op = model_.operators[k];
      if (op.tail.shortcut >= 0) need(op.tail.shortcut);
      // What nobody reads: a convolution and a channel map leave it out, the others write it, so it must have a place.
      if (!is_convolution(op) && op.kind != Kind::channels) need(op.output);
      if (op.kind == Kind::bconv) continue;
      if (op.kind == Kind::channels && !plan_.values[z(op.output)].is_needed) {
        plan_.operators[k].is_done = true;
        continue;
      }
      for (const int input : op.inputs) need(is_pool(op) ? source(input).value : input);
    }
    for (std::size_t k = 0; k < model_.operators.size(); ++k) {
      if (plan_.operators[k].pool >= 0) plan_.values[z(model_.operators[k].output)].is_needed = false;
    }
    // The border of a value is the widest that one of its readers asks for.
    for (const Operator& op : model_.operators) {
      if (op.kind != Kind::conv || op.groups > 1) continue;
      RealForm& form = plan_.values[z(op.inputs[0])];
      form.top = std::max(form.top, op.window.ph);
      form.left = std::max(form.left, op.window.pw);
    }
    for (std::size_t k = 0; k < model_.operators.size(); ++k) {
      const Operator& op = model_.operators[k];
      if (op.kind != Kind::conv) continue;
      const Shape &in = of(op.inputs[0]), &out = of(op.output);
      const Window& w = op.window;
      if (op.groups > 1) {
        OperatorPlan& plan = plan_.operators[k];
        plan.gather_rows = reach(out.h, w.sh, w.kh, w.ph, in.h);
        plan.gather_columns = reach(out.w, w.sw, w.kw, w.pw, in.w);
        const std::size_t floats = z(plan.gather_rows) * z(plan.gather_columns) * z(in.c);
        if (floats > MAX_ARENA_FLOATS) throw FormatError(op.path + ": its input would not fit into memory");
        plan_.gather_floats = std::max(plan_.gather_floats, floats);
        continue;
      }
      RealForm& form = plan_.values[z(op.inputs[0])];
      form.rows = std::max({form.rows, form.top + in.h, form.top - w.ph + (out.h - 1) * w.sh + w.kh});
      form.columns = std::max({form.columns, form.left + in.w, form.left - w.pw + (out.w - 1) * w.sw + w.kw});
    }
  }

  // (x / 255 - mean) / std as one multiplication and addition, for every element of a row.
  void pixels() {
    const Shape& in = model_.input();
    plan_.pixel_scale = AlignedArray<float>(z(in.w) * z(in.c));
    plan_.pixel_shift = AlignedArray<float>(z(in.w) * z(in.c));
    for (std::size_t k = 0; k < z(in.w) * z(in.c); ++k) {
      const std::size_t c = k % z(in.c);
      const double mean = model_.mean[c], std = model_.std[c];
      plan_.pixel_scale[k] = static_cast<float>(1 / (255 * std));
      plan_.pixel_shift[k] = static_cast<float>(-mean / std);
    }
    plan_.stem = make_stem(model_, plan_.pixel_scale.data(), plan_.pixel_shift.data());
  }

  // Places the real forms: two values share memory if one is dead before the other is born.
  void arena() {
    struct Life {
      int value, born, dies;
    };
    std::vector<Life> lives;
    const int end = static_cast<int>(model_.operators.size());
    for (std::size_t v = 0; v < plan_.values.size(); ++v) {
      if (plan_.values[v].is_needed) lives.push_back({static_cast<int>(v), -1, -1});
    }
    std::vector<int> index(plan_.values.size(), -1);
    for (std::size_t k = 0; k < lives.size(); ++k) index[z(lives[k].value)] = static_cast<int>(k);
    const auto touch = [&](int value, int when) {
      if (value >= 0 && index[z(value)] >= 0) lives[z(index[z(value)])].dies = when;
    };
    const auto bear = [&](int value, int when) {
      touch(value, when);
      if (index[z(value)] >= 0) lives[z(index[z(value)])].born = when;
    };
    for (int k = 0; k < end; ++k) {
      const Operator& op = model_.operators[z(k)];
      const OperatorPlan& plan = plan_.operators[z(k)];
      if (plan.is_done) continue;
      for (const int input : op.inputs) {
        touch(input, k);
        touch(source(input).value, k);
      }
      touch(op.tail.shortcut, k);
      bear(op.output, k);
      if (plan.pool >= 0) bear(model_.operators[z(plan.pool)].output, k);
    }
    touch(model_.operators.back().output, end);
    std::stable_sort(lives.begin(), lives.end(),
                     [this](const Life& a, const Life& b) { return size(a.value) > size(b.value); });
    std::vector<Life> placed;
    for (const Life& life : lives) {
      std::vector<std::pair<std::size_t, std::size_t>> taken;
      for (const Life& other : placed) {
        if (life.born <= other.dies && other.born <= life.dies) {
          const std::size_t at = plan_.values[z(other.value)].offset;
          taken.emplace_back(at, at + size(other.value));
        }
      }
      std::sort(taken.begin(), taken.end());
      std::size_t at = 0;
      for (const auto& [first, last] : taken) {
        if (at + size(life.value) <= first) break;
        at = std::max(at, last);
      }
      plan_.values[z(life.value)].offset = at;
      plan_.arena_floats = std::max(plan_.arena_floats, at + size(life.value));
      if (plan_.arena_floats > MAX_ARENA_FLOATS)
        throw FormatError("the values of this network would not fit into memory");
      placed.push_back(life);
    }
  }

  std::size_t size(int value) const { return round_up(plan_.values[z(value)].size() + LINE_FLOATS, LINE_FLOATS); }

  const Model& model_;
  Plan plan_;
  Room weight_room_;
};

}  // namespace

bool is_convolution(const Operator& op) {
  return op.kind == Kind::conv || op.kind == Kind::bconv || op.kind == Kind::linear;
}

CodeImage code_image(const Model& model, const Operator& op, const CodePlane& plane, int group) {
  const Shape& in = model.values[z(op.inputs[0])];
  CodeImage image{};
  image.rows = plane.rows;
  image.columns = plane.columns;
  image.words = plane.groups[z(group)].words;
  image.channels = Groups{in.c, op.groups}.size(group);
  image.top = plane.top;
  image.left = plane.left;
  image.height = in.h;
  image.width = in.w;
  // A stride past the image's end has one output row or column, and its planes would be empty but for the first.
  image.stride_y = std::min(op.window.sh, plane.rows);
  image.stride_x = std::min(op.window.sw, plane.columns);
  image.zero_one = op.zero_one;
  return image;
}

Plan make_plan(const Model& model) { return Planner(model).make(); }

}  // namespace ftbnn
