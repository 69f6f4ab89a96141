#include "engine/plan.h"

#include <algorithm>

namespace ftbnn {

namespace {

constexpr std::size_t MAX_ARENA_FLOATS = std::size_t{1} << 28;
constexpr std::size_t LINE_FLOATS = CACHE_LINE / sizeof(float), LINE_WORDS = CACHE_LINE / sizeof(std::uint64_t);

int panels_of(int channels) { return (channels + PANEL - 1) / PANEL; }
int words_of(int channels) { return (channels + 63) / 64; }

bool is_convolution(const Operator& op) {
  return op.kind == Kind::conv || op.kind == Kind::bconv || op.kind == Kind::linear;
}

// Rows (or columns) that a window touches: the padded image, or more where the last window reaches past it.
int reach(int out, int stride, int kernel, int padding, int size) {
  return std::max((out - 1) * stride + kernel, padding + size);
}

// The taps of a window that lie inside the image, [first, last).
struct Inside {
  int first, last;
  bool operator==(const Inside& other) const { return first == other.first && last == other.last; }
};

// Output rows (or columns) that see the same taps inside the image are one class.
std::vector<std::uint8_t> border_classes(int out, int stride, int kernel, int padding, int size,
                                         std::vector<Inside>& kinds) {
  std::vector<std::uint8_t> classes;
  for (int o = 0; o < out; ++o) {
    const int start = o * stride - padding;
    const Inside inside{std::clamp(-start, 0, kernel), std::clamp(size - start, 0, kernel)};
    const auto found = std::find(kinds.begin(), kinds.end(), inside);
    classes.push_back(static_cast<std::uint8_t>(found - kinds.begin()));
    if (found == kinds.end()) kinds.push_back(inside);
  }
  return classes;
}

class Planner {
 public:
  explicit Planner(const Model& model) : model_(model) {}

  Plan make() {
    plan_.values.resize(model_.values.size());
    plan_.operators.resize(model_.operators.size());
    code_planes();
    real_forms();
    for (std::size_t k = 0; k < model_.operators.size(); ++k) {
      if (is_convolution(model_.operators[k])) prepare(model_.operators[k], plan_.operators[k]);
    }
    arena();
    return std::move(plan_);
  }

 private:
  const Shape& of(int value) const { return model_.values[static_cast<std::size_t>(value)]; }

  // A plane for every binary convolution, and who writes it.
  void code_planes() {
    for (std::size_t k = 0; k < model_.operators.size(); ++k) {
      const Operator& op = model_.operators[k];
      if (op.kind != Kind::bconv) continue;
      const Shape &in = of(op.inputs[0]), &out = of(op.output);
      CodePlane plane;
      plane.value = op.inputs[0];
      plane.top = op.window.ph;
      plane.left = op.window.pw;
      plane.rows = reach(out.h, op.window.sh, op.window.kh, op.window.ph, in.h);
      plane.columns = reach(out.w, op.window.sw, op.window.kw, op.window.pw, in.w);
      const Groups groups{in.c, op.groups};
      const auto positions = static_cast<std::size_t>(plane.rows) * static_cast<std::size_t>(plane.columns);
      for (int g = 0; g < op.groups; ++g) {
        plane.words.push_back(words_of(groups.size(g)));
        plane.group_at.push_back(plan_.code_words);
        plan_.code_words += round_up(positions * static_cast<std::size_t>(plane.words.back()), LINE_WORDS);
        if (plan_.code_words > MAX_ARENA_FLOATS)
          throw FormatError("the codes of this network would not fit into memory");
      }
      plan_.operators[k].plane = static_cast<int>(plan_.planes.size());
      const auto outputs = static_cast<std::size_t>(out.h) * static_cast<std::size_t>(out.w);
      if (op.zero_one)
        plan_.scratch_ints = std::max(plan_.scratch_ints, positions + outputs * static_cast<std::size_t>(op.groups));
      plan_.planes.push_back(plane);
    }
    for (std::size_t p = 0; p < plan_.planes.size(); ++p) assign_writer(static_cast<int>(p));
  }

  void assign_writer(int p) {
    CodePlane& plane = plan_.planes[static_cast<std::size_t>(p)];
    if (plane.value == 0) {
      plan_.input_planes.push_back(p);
      return;
    }
    for (std::size_t k = 0; k < model_.operators.size(); ++k) {
      const Operator& op = model_.operators[k];
      if (op.output != plane.value) continue;
      OperatorPlan& writer = plan_.operators[k];
      if (is_convolution(op) && writer.direct_plane < 0 && panels_fit(op, plane)) {
        writer.direct_plane = p;
        plane.is_direct = true;
      } else {
        writer.pack_planes.push_back(p);
      }
    }
  }

  // A panel's 32 signs are half a word of the plane: true if every panel starts on a half and none has a neighbour in
  // its own.
  bool panels_fit(const Operator& op, const CodePlane& plane) const {
    const int channels = of(op.output).c;
    const Groups made{channels, op.groups}, read{channels, static_cast<int>(plane.words.size())};
    for (int g = 0; g < made.groups; ++g) {
      for (int c = made.first(g); c < made.first(g) + made.size(g); c += PANEL) {
        const int end = std::min(c + PANEL, made.first(g) + made.size(g));
        const int r = std::min(c / (channels / read.groups), read.groups - 1);
        const int last = read.first(r) + read.size(r);
        if ((c - read.first(r)) % PANEL != 0 || end > last || (end - c < PANEL && end != last)) return false;
      }
    }
    return true;
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
      RealForm& form = plan_.values[static_cast<std::size_t>(value)];
      form.is_needed = true;
      return form;
    };
    need(0);
    need(model_.operators.back().output);
    for (const Operator& op : model_.operators) {
      if (op.tail.shortcut >= 0) need(op.tail.shortcut);
      if (op.kind == Kind::bconv) continue;
      for (const int input : op.inputs) need(input);
    }
    for (const CodePlane& plane : plan_.planes) {
      if (!plane.is_direct) need(plane.value);
    }
    // The border of a value is the widest that one of its readers asks for.
    for (const Operator& op : model_.operators) {
      if (op.kind != Kind::conv || op.groups > 1) continue;
      RealForm& form = need(op.inputs[0]);
      form.top = std::max(form.top, op.window.ph);
      form.left = std::max(form.left, op.window.pw);
    }
    for (const Operator& op : model_.operators) {
      if (op.kind != Kind::conv || op.groups > 1) continue;
      const Shape &in = of(op.inputs[0]), &out = of(op.output);
      RealForm& form = need(op.inputs[0]);
      const Window& w = op.window;
      form.rows = std::max({form.rows, form.top + in.h, form.top - w.ph + (out.h - 1) * w.sh + w.kh});
      form.columns = std::max({form.columns, form.left + in.w, form.left - w.pw + (out.w - 1) * w.sw + w.kw});
    }
  }

  void prepare(const Operator& op, OperatorPlan& plan) {
    const Shape &in = of(op.inputs[0]), &out = of(op.output);
    const Groups ins{in.c, op.groups}, outs{out.c, op.groups};
    const bool is_binary = op.kind == Kind::bconv;
    const int taps = op.window.kh * op.window.kw;
    int panels = 0;
    std::size_t size = 0;
    for (int g = 0; g < op.groups; ++g) {
      GroupPlan group{ins.first(g), ins.size(g), outs.first(g), outs.size(g), panels_of(outs.size(g)), panels, size};
      const int depth = is_binary ? words_of(group.in_size) : group.in_size;
      panels += group.panels;
      size += static_cast<std::size_t>(group.panels) * static_cast<std::size_t>(taps) *
              static_cast<std::size_t>(depth) * PANEL;
      plan.macs += static_cast<std::uint64_t>(group.in_size) * static_cast<std::uint64_t>(group.out_size);
      plan.groups.push_back(group);
      if (size > MAX_ARENA_FLOATS) throw FormatError(op.path + ": the weights would not fit into memory");
    }
    plan.macs *=
        static_cast<std::uint64_t>(taps) * static_cast<std::uint64_t>(out.h) * static_cast<std::uint64_t>(out.w);
    if (is_binary) {
      plan.bits = AlignedArray<std::uint64_t>(size);
      arrange_bits(op, plan);
    } else {
      plan.weights = AlignedArray<float>(size);
      arrange_weights(op, plan);
    }
    const auto arrange = [&](const float* from, float absent) {
      AlignedArray<float> to(static_cast<std::size_t>(panels) * PANEL);
      for (const GroupPlan& group : plan.groups) {
        for (int c = 0; c < group.out_size; ++c) {
          to[static_cast<std::size_t>(group.first_panel) * PANEL + static_cast<std::size_t>(c)] =
              from ? from[group.out_first + c] : absent;
        }
      }
      return to;
    };
    plan.scale = arrange(op.tail.scale, 1.0F);
    plan.shift = arrange(op.tail.shift, 0.0F);
    plan.left = arrange(op.tail.left, 1.0F);
    plan.right = arrange(op.tail.right, 1.0F);
    if (is_binary && !op.zero_one) border_base(op, plan, panels);
  }

  void arrange_weights(const Operator& op, OperatorPlan& plan) {
    const int taps = op.window.kh * op.window.kw;
    const float* from = op.weights;
    for (const GroupPlan& group : plan.groups) {
      for (int o = 0; o < group.out_size; ++o) {
        float* panel = plan.weights.data() + group.weights_at +
                       static_cast<std::size_t>(o / PANEL) * static_cast<std::size_t>(taps * group.in_size) * PANEL;
        for (int c = 0; c < group.in_size; ++c) {
          for (int t = 0; t < taps; ++t)
            panel[static_cast<std::size_t>(t * group.in_size + c) * PANEL + o % PANEL] = *from++;
        }
      }
    }
  }

  void arrange_bits(const Operator& op, OperatorPlan& plan) {
    const int taps = op.window.kh * op.window.kw;
    std::size_t k = 0;
    for (const GroupPlan& group : plan.groups) {
      const int words = words_of(group.in_size);
      for (int o = 0; o < group.out_size; ++o) {
        std::uint64_t* panel = plan.bits.data() + group.weights_at +
                               static_cast<std::size_t>(o / PANEL) * static_cast<std::size_t>(taps * words) * PANEL;
        for (int t = 0; t < taps; ++t) {
          for (int c = 0; c < group.in_size; ++c, ++k) {
            const std::uint64_t bit = (op.bits[k / 8] >> (k % 8)) & 1U;
            panel[static_cast<std::size_t>(t * words + c / 64) * PANEL + o % PANEL] |= bit << (c % 64);
          }
        }
      }
    }
  }

  // What xor counts for taps outside the image, and the number of channels inside: see kernels/conv_row.h.
  void border_base(const Operator& op, OperatorPlan& plan, int panels) {
    const Shape &in = of(op.inputs[0]), &out = of(op.output);
    const Window& w = op.window;
    std::vector<Inside> rows, columns;
    plan.row_class = border_classes(out.h, w.sh, w.kh, w.ph, in.h, rows);
    plan.column_class = border_classes(out.w, w.sw, w.kw, w.pw, in.w, columns);
    plan.row_classes = static_cast<int>(rows.size());
    plan.column_classes = static_cast<int>(columns.size());
    const std::size_t classes = rows.size() * columns.size();
    if (static_cast<std::size_t>(panels) * classes * PANEL > MAX_ARENA_FLOATS) {
      throw FormatError(op.path + ": the border would not fit into memory");
    }
    plan.base = AlignedArray<std::int32_t>(static_cast<std::size_t>(panels) * classes * PANEL);
    // ones[y][x]: ones of this output channel's weights in the taps above and left of (y, x).
    std::vector<std::int32_t> ones(static_cast<std::size_t>((w.kh + 1) * (w.kw + 1)));
    const auto sum = [&](int y, int x) -> std::int32_t& { return ones[static_cast<std::size_t>(y * (w.kw + 1) + x)]; };
    for (const GroupPlan& group : plan.groups) {
      const int words = words_of(group.in_size);
      for (int o = 0; o < group.out_size; ++o) {
        const std::size_t panel = static_cast<std::size_t>(o / PANEL);
        const std::uint64_t* weights = plan.bits.data() + group.weights_at +
                                       panel * static_cast<std::size_t>(w.kh * w.kw * words) * PANEL + o % PANEL;
        for (int y = 0; y < w.kh; ++y) {
          for (int x = 0; x < w.kw; ++x) {
            std::int32_t here = 0;
            for (int word = 0; word < words; ++word, weights += PANEL) here += __builtin_popcountll(*weights);
            sum(y + 1, x + 1) = here + sum(y, x + 1) + sum(y + 1, x) - sum(y, x);
          }
        }
        std::int32_t* base =
            plan.base.data() + (static_cast<std::size_t>(group.first_panel) + panel) * classes * PANEL + o % PANEL;
        for (const Inside& r : rows) {
          for (const Inside& c : columns) {
            const int taps = (r.last - r.first) * (c.last - c.first);
            const std::int32_t inside =
                sum(r.last, c.last) - sum(r.first, c.last) - sum(r.last, c.first) + sum(r.first, c.first);
            *base = group.in_size * taps + 2 * (sum(w.kh, w.kw) - inside);
            base += PANEL;
          }
        }
      }
    }
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
    for (std::size_t k = 0; k < lives.size(); ++k)
      index[static_cast<std::size_t>(lives[k].value)] = static_cast<int>(k);
    const auto touch = [&](int value, int when) {
      if (value >= 0 && index[static_cast<std::size_t>(value)] >= 0)
        lives[static_cast<std::size_t>(index[static_cast<std::size_t>(value)])].dies = when;
    };
    for (int k = 0; k < end; ++k) {
      const Operator& op = model_.operators[static_cast<std::size_t>(k)];
      for (const int input : op.inputs) touch(input, k);
      touch(op.tail.shortcut, k);
      touch(op.output, k);
      const int made = index[static_cast<std::size_t>(op.output)];
      if (made >= 0) lives[static_cast<std::size_t>(made)].born = k;
    }
    touch(model_.operators.back().output, end);
    std::stable_sort(lives.begin(), lives.end(),
                     [this](const Life& a, const Life& b) { return size(a.value) > size(b.value); });
    std::vector<Life> placed;
    for (const Life& life : lives) {
      std::vector<std::pair<std::size_t, std::size_t>> taken;
      for (const Life& other : placed) {
        if (life.born <= other.dies && other.born <= life.dies) {
          const std::size_t at = plan_.values[static_cast<std::size_t>(other.value)].offset;
          taken.emplace_back(at, at + size(other.value));
        }
      }
      std::sort(taken.begin(), taken.end());
      std::size_t at = 0;
      for (const auto& [first, last] : taken) {
        if (at + size(life.value) <= first) break;
        at = std::max(at, last);
      }
      plan_.values[static_cast<std::size_t>(life.value)].offset = at;
      plan_.arena_floats = std::max(plan_.arena_floats, at + size(life.value));
      if (plan_.arena_floats > MAX_ARENA_FLOATS)
        throw FormatError("the values of this network would not fit into memory");
      placed.push_back(life);
    }
  }

  std::size_t size(int value) const {
    return round_up(plan_.values[static_cast<std::size_t>(value)].size() + LINE_FLOATS, LINE_FLOATS);
  }

  const Model& model_;
  Plan plan_;
};

}  // namespace

Plan make_plan(const Model& model) { return Planner(model).make(); }

}  // namespace ftbnn
