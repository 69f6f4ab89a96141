#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

namespace ftbnn {

namespace {

std::size_t z(int value) { return static_cast<std::size_t>(value); }

float activate(float y, Act act, float left, float right) {
  switch (act) {
    case Act::none:
      return y;
    case Act::relu:
      return y > 0 ? y : 0;
    case Act::prelu:
      return y > 0 ? y : left * y;
    case Act::fprelu:
      return y > 0 ? right * y : left * y;
  }
  return y;
}

}  // namespace

// One image on its way through the network.
class Engine::Run {
 public:
  Run(const Engine& engine, Workspace& memory, ThreadPool* pool)
      : model_(engine.model_), plan_(engine.plan_), kernels_(engine.kernels_), memory_(memory), pool_(pool) {}

  void load(const float* image) {
    const Shape& in = model_.input();
    fill_input([&](int y, int x, int c) { return image[(z(c) * z(in.h) + z(y)) * z(in.w) + z(x)]; });
  }

  void load(const std::uint8_t* image) {
    const Shape& in = model_.input();
    fill_input([&](int y, int x, int c) {
      const float value = static_cast<float>(image[(z(y) * z(in.w) + z(x)) * z(in.c) + z(c)]);
      return (value / 255.0F - model_.mean[z(c)]) / model_.std[z(c)];
    });
  }

  void execute(std::size_t index) {
    const Operator& op = model_.operators[index];
    const OperatorPlan& plan = plan_.operators[index];
    const RealForm& out = form(op.output);
    if (out.is_needed && out.has_border(shape(op.output))) clear(out);
    switch (op.kind) {
      case Kind::conv:
      case Kind::linear:
        convolve(op, plan);
        break;
      case Kind::bconv:
        convolve_binary(op, plan);
        break;
      case Kind::max_pool:
      case Kind::avg_pool:
        pool(op);
        break;
      case Kind::average_to:
        average_to(op);
        break;
      case Kind::concat:
        concat(op);
        break;
      case Kind::channels:
        channels(op);
        break;
      case Kind::pointwise:
        pointwise(op);
        break;
      case Kind::flatten:
        flatten(op);
        break;
    }
    for (const int plane : plan.pack_planes) pack(plan_.planes[z(plane)]);
  }

  void store(float* output) const {
    const int value = model_.operators.back().output;
    const Shape& out = shape(value);
    for (int y = 0; y < out.h; ++y) {
      for (int x = 0; x < out.w; ++x) {
        const float* from = at(value, y, x);
        for (int c = 0; c < out.c; ++c) output[(z(c) * z(out.h) + z(y)) * z(out.w) + z(x)] = from[c];
      }
    }
  }

 private:
  const Shape& shape(int value) const { return model_.values[z(value)]; }
  const RealForm& form(int value) const { return plan_.values[z(value)]; }

  float* at(int value, int y, int x) const {
    const RealForm& f = form(value);
    return memory_.arena.data() + f.offset + z(y + f.top) * f.row_stride() + z(x + f.left) * z(f.channels);
  }

  std::uint64_t* plane_at(const CodePlane& plane, int group, int y, int x) const {
    return memory_.codes.data() + plane.group_at[z(group)] +
           (z(y) * z(plane.columns) + z(x)) * z(plane.words[z(group)]);
  }

  void clear(const RealForm& f) { std::memset(memory_.arena.data() + f.offset, 0, f.size() * sizeof(float)); }

  template <typename Body>
  void parallel(int count, const Body& body) {
    if (pool_ != nullptr) {
      pool_->run(count, body);
    } else {
      for (int task = 0; task < count; ++task) body(task);
    }
  }

  template <typename Pixel>
  void fill_input(const Pixel& pixel) {
    const Shape& in = model_.input();
    if (form(0).has_border(in)) clear(form(0));
    parallel(in.h, [&](int y) {
      for (int x = 0; x < in.w; ++x) {
        float* to = at(0, y, x);
        for (int c = 0; c < in.c; ++c) to[c] = pixel(y, x, c);
      }
    });
    for (const int plane : plan_.input_planes) pack(plan_.planes[z(plane)]);
  }

  // The part of the epilogue that is the same for a whole row of a panel.
  Epilogue epilogue(const Operator& op, const OperatorPlan& plan, const GroupPlan& group, int panel, int y) const {
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
      const Groups read{shape(op.output).c, static_cast<int>(plane.words.size())};
      const int g = std::min(channel / (read.channels / read.groups), read.groups - 1);
      auto* halves = reinterpret_cast<std::uint32_t*>(plane_at(plane, g, y + plane.top, plane.left));
      end.codes = halves + (channel - read.first(g)) / PANEL;
      end.codes_stride = 2 * z(plane.words[z(g)]);
    }
    return end;
  }

  // Calls body(group, panel, first row, last row) for pieces of the output that threads may take.
  template <typename Body>
  void for_pieces(const OperatorPlan& plan, int rows, const Body& body) {
    const int wanted = pool_ != nullptr ? 4 * pool_->threads() : 1;
    int panels = 0;
    for (const GroupPlan& group : plan.groups) panels += group.panels;
    const int cuts = std::min(rows, std::max(1, (wanted + panels - 1) / panels));
    parallel(panels * cuts, [&](int task) {
      const int panel = task / cuts, cut = task % cuts;
      const GroupPlan& group = *std::find_if(plan.groups.begin(), plan.groups.end(),
                                             [&](const GroupPlan& g) { return panel < g.first_panel + g.panels; });
      body(group, panel - group.first_panel, rows * cut / cuts, rows * (cut + 1) / cuts);
    });
  }

  void convolve(const Operator& op, const OperatorPlan& plan) {
    const Shape& out = shape(op.output);
    const RealForm& in = form(op.inputs[0]);
    const Window& w = op.window;
    for_pieces(plan, out.h, [&](const GroupPlan& group, int panel, int first, int last) {
      ConvRow row{};
      std::vector<float> gathered;
      row.channels_in = group.in_size;
      row.kh = w.kh;
      row.kw = w.kw;
      row.stride = w.sw;
      row.width = out.w;
      row.channels = std::min(PANEL, group.out_size - panel * PANEL);
      row.weights = plan.weights.data() + group.weights_at + z(panel) * z(w.kh * w.kw * group.in_size) * PANEL;
      for (int y = first; y < last; ++y) {
        if (plan.groups.size() == 1) {
          row.in = at(op.inputs[0], y * w.sh - w.ph, -w.pw);
          row.row_stride = in.row_stride();
        } else {
          gather_group(op, group, y, gathered);
          row.in = gathered.data();
          row.row_stride = gathered.size() / z(w.kh);
        }
        row.end = epilogue(op, plan, group, panel, y);
        kernels_.conv_row(row);
      }
    });
  }

  // The rows of one group of a grouped real convolution, side by side with their border.
  void gather_group(const Operator& op, const GroupPlan& group, int y, std::vector<float>& to) const {
    const Shape &in = shape(op.inputs[0]), &out = shape(op.output);
    const Window& w = op.window;
    const int columns = (out.w - 1) * w.sw + w.kw;
    to.assign(z(w.kh) * z(columns) * z(group.in_size), 0.0F);
    for (int ky = 0; ky < w.kh; ++ky) {
      const int row = y * w.sh - w.ph + ky;
      if (row < 0 || row >= in.h) continue;
      for (int x = std::max(0, w.pw); x < std::min(columns, w.pw + in.w); ++x) {
        std::copy_n(at(op.inputs[0], row, x - w.pw) + group.in_first, group.in_size,
                    to.data() + (z(ky) * z(columns) + z(x)) * z(group.in_size));
      }
    }
  }

  void convolve_binary(const Operator& op, const OperatorPlan& plan) {
    const Shape& out = shape(op.output);
    const CodePlane& plane = plan_.planes[z(plan.plane)];
    const Window& w = op.window;
    const std::size_t outputs = z(out.h) * z(out.w);
    if (op.zero_one) count_ones(op, plan, plane);
    for_pieces(plan, out.h, [&](const GroupPlan& group, int panel, int first, int last) {
      const int g = static_cast<int>(&group - plan.groups.data());
      BConvRow row{};
      row.words = plane.words[z(g)];
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
          row.base =
              plan.base.data() +
              (z(group.first_panel + panel) * classes + z(plan.row_class[z(y)]) * z(plan.column_classes)) * PANEL;
        }
        row.end = epilogue(op, plan, group, panel, y);
        kernels_.bconv_row(row);
      }
    });
  }

  // Ones in every window, shared by all output channels of a group: the AND form at the price of one.
  void count_ones(const Operator& op, const OperatorPlan& plan, const CodePlane& plane) {
    const Shape& out = shape(op.output);
    const Window& w = op.window;
    const std::size_t outputs = z(out.h) * z(out.w);
    std::int32_t* windows = memory_.scratch.data();
    std::int32_t* positions = windows + outputs * plan.groups.size();
    for (std::size_t g = 0; g < plan.groups.size(); ++g, windows += outputs) {
      parallel(plane.rows, [&](int y) {
        const std::uint64_t* word = plane_at(plane, static_cast<int>(g), y, 0);
        for (int x = 0; x < plane.columns; ++x) {
          std::int32_t ones = 0;
          for (int k = 0; k < plane.words[g]; ++k) ones += __builtin_popcountll(*word++);
          positions[z(y) * z(plane.columns) + z(x)] = ones;
        }
      });
      parallel(out.h, [&](int y) {
        for (int x = 0; x < out.w; ++x) {
          std::int32_t ones = 0;
          for (int ky = 0; ky < w.kh; ++ky) {
            const std::int32_t* row = positions + z(y * w.sh + ky) * z(plane.columns) + z(x * w.sw);
            for (int kx = 0; kx < w.kw; ++kx) ones += row[kx];
          }
          windows[z(y) * z(out.w) + z(x)] = ones;
        }
      });
    }
  }

  // Signs of a value's real form into a plane.
  void pack(const CodePlane& plane) {
    const Shape& s = shape(plane.value);
    const Groups groups{s.c, static_cast<int>(plane.words.size())};
    parallel(s.h, [&](int y) {
      for (int g = 0; g < groups.groups; ++g) {
        std::uint64_t* to = plane_at(plane, g, y + plane.top, plane.left);
        for (int x = 0; x < s.w; ++x) {
          const float* from = at(plane.value, y, x) + groups.first(g);
          for (int c = 0; c < groups.size(g); c += 64) {
            const int count = std::min(64, groups.size(g) - c);
            std::uint64_t word = 0;
            for (int k = 0; k < count; ++k) word |= static_cast<std::uint64_t>(from[c + k] > 0) << k;
            *to++ = word;
          }
        }
      }
    });
  }

  void pool(const Operator& op) {
    const Shape &in = shape(op.inputs[0]), &out = shape(op.output);
    const Window& w = op.window;
    const bool is_max = op.kind == Kind::max_pool;
    parallel(out.h, [&](int y) {
      const int top = y * w.sh - w.ph, first_y = std::max(top, 0), last_y = std::min(top + w.kh, in.h);
      for (int x = 0; x < out.w; ++x) {
        const int side = x * w.sw - w.pw, first_x = std::max(side, 0), last_x = std::min(side + w.kw, in.w);
        float* __restrict to = at(op.output, y, x);
        std::fill_n(to, out.c, is_max ? -std::numeric_limits<float>::infinity() : 0.0F);
        for (int iy = first_y; iy < last_y; ++iy) {
          for (int ix = first_x; ix < last_x; ++ix) {
            const float* __restrict from = at(op.inputs[0], iy, ix);
            if (is_max) {
              for (int c = 0; c < out.c; ++c) to[c] = from[c] > to[c] ? from[c] : to[c];
            } else {
              for (int c = 0; c < out.c; ++c) to[c] += from[c];
            }
          }
        }
        if (is_max) continue;
        const int count = op.whole_window ? w.kh * w.kw : (last_y - first_y) * (last_x - first_x);
        for (int c = 0; c < out.c; ++c) to[c] /= static_cast<float>(count);
      }
    });
  }

  void average_to(const Operator& op) {
    const Shape &in = shape(op.inputs[0]), &out = shape(op.output);
    for (int y = 0; y < out.h; ++y) {
      const int first_y = y * in.h / out.h, last_y = ((y + 1) * in.h + out.h - 1) / out.h;
      for (int x = 0; x < out.w; ++x) {
        const int first_x = x * in.w / out.w, last_x = ((x + 1) * in.w + out.w - 1) / out.w;
        float* __restrict to = at(op.output, y, x);
        std::fill_n(to, out.c, 0.0F);
        for (int iy = first_y; iy < last_y; ++iy) {
          for (int ix = first_x; ix < last_x; ++ix) {
            const float* __restrict from = at(op.inputs[0], iy, ix);
            for (int c = 0; c < out.c; ++c) to[c] += from[c];
          }
        }
        const auto count = static_cast<float>((last_y - first_y) * (last_x - first_x));
        for (int c = 0; c < out.c; ++c) to[c] /= count;
      }
    }
  }

  void concat(const Operator& op) {
    const Shape& out = shape(op.output);
    parallel(out.h, [&](int y) {
      for (int x = 0; x < out.w; ++x) {
        float* to = at(op.output, y, x);
        for (const int input : op.inputs) to = std::copy_n(at(input, y, x), shape(input).c, to);
      }
    });
  }

  void channels(const Operator& op) {
    const Shape& out = shape(op.output);
    parallel(out.h, [&](int y) {
      for (int x = 0; x < out.w; ++x) {
        const float* from = at(op.inputs[0], y, x);
        float* to = at(op.output, y, x);
        for (int c = 0; c < out.c; ++c) to[c] = from[op.map[c]];
      }
    });
  }

  void pointwise(const Operator& op) {
    const Shape& out = shape(op.output);
    const Tail& tail = op.tail;
    parallel(out.h, [&](int y) {
      for (int x = 0; x < out.w; ++x) {
        const float* from = at(op.inputs[0], y, x);
        const float* shortcut = tail.shortcut >= 0 ? at(tail.shortcut, y, x) : nullptr;
        float* to = at(op.output, y, x);
        for (int c = 0; c < out.c; ++c) {
          float value = tail.scale ? tail.scale[c] * from[c] : from[c];
          if (tail.shift) value += tail.shift[c];
          if (shortcut) value += shortcut[c];
          to[c] = activate(value, tail.act, tail.left ? tail.left[c] : 1.0F, tail.right ? tail.right[c] : 1.0F);
        }
      }
    });
  }

  void flatten(const Operator& op) {
    const Shape& in = shape(op.inputs[0]);
    float* to = at(op.output, 0, 0);
    for (int y = 0; y < in.h; ++y) {
      for (int x = 0; x < in.w; ++x) {
        const float* from = at(op.inputs[0], y, x);
        for (int c = 0; c < in.c; ++c) to[(z(c) * z(in.h) + z(y)) * z(in.w) + z(x)] = from[c];
      }
    }
  }

  const Model& model_;
  const Plan& plan_;
  const Kernels& kernels_;
  Workspace& memory_;
  ThreadPool* pool_;
};

Engine::Engine(Model model, int threads)
    : model_(std::move(model)), plan_(make_plan(model_)), kernels_(kernels_for(isa_in_use())), pool_(threads) {
  workspaces_.push_back(std::make_unique<Workspace>(plan_));
}

std::unique_ptr<Workspace> Engine::take_workspace() const {
  const std::lock_guard<std::mutex> lock(workspaces_mutex_);
  if (workspaces_.empty()) return std::make_unique<Workspace>(plan_);
  std::unique_ptr<Workspace> taken = std::move(workspaces_.back());
  workspaces_.pop_back();
  return taken;
}

void Engine::give_back(std::unique_ptr<Workspace> workspace) const {
  const std::lock_guard<std::mutex> lock(workspaces_mutex_);
  workspaces_.push_back(std::move(workspace));
}

template <typename Pixel>
void Engine::run_all(const Pixel* images, int batch, float* output) const {
  std::unique_ptr<Workspace> memory = take_workspace();
  // A call that finds the pool busy with another one runs on its own thread alone: same results, no waiting.
  std::unique_lock<std::mutex> pool_lock(pool_mutex_, std::try_to_lock);
  Run run(*this, *memory, pool_lock.owns_lock() ? &pool_ : nullptr);
  const std::size_t in = model_.input().elements(), out = model_.output().elements();
  for (int k = 0; k < batch; ++k) {
    run.load(images + z(k) * in);
    for (std::size_t index = 0; index < model_.operators.size(); ++index) run.execute(index);
    run.store(output + z(k) * out);
  }
  give_back(std::move(memory));
}

void Engine::run(const float* images, int batch, float* output) const { run_all(images, batch, output); }
void Engine::run(const std::uint8_t* images, int batch, float* output) const { run_all(images, batch, output); }

std::vector<double> Engine::profile(const float* image, int rounds) const {
  using Clock = std::chrono::steady_clock;
  std::vector<double> fastest(model_.operators.size() + 1, std::numeric_limits<double>::infinity());
  std::unique_ptr<Workspace> memory = take_workspace();
  const std::lock_guard<std::mutex> pool_lock(pool_mutex_);
  Run run(*this, *memory, &pool_);
  for (int round = 0; round < rounds; ++round) {
    Clock::time_point before = Clock::now();
    const auto lap = [&](std::size_t index) {
      const Clock::time_point now = Clock::now();
      fastest[index] = std::min(fastest[index], std::chrono::duration<double>(now - before).count());
      before = now;
    };
    run.load(image);
    lap(0);
    for (std::size_t index = 0; index < model_.operators.size(); ++index) {
      run.execute(index);
      lap(index + 1);
    }
  }
  give_back(std::move(memory));
  return fastest;
}

}  // namespace ftbnn
