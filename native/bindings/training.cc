// Training, as Python sees it: operators for one shape of input, called with named arrays.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <cmath>

#include <array>
#include <limits>

#include "base/blocks.h"
#include "base/table.h"
#include "bindings/arrays.h"
#include "bindings/module.h"
#include "bindings/team.h"
#include "training/block.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace ftbnn;
using namespace ftbnn::training;

using Pair = std::array<int, 2>;                                                 // height before width
using Named = nb::typed<nb::dict, std::string, nb::typed<nb::tuple, int, int>>;  // arrays

GradientRule rule_named(const std::string& name, const std::vector<double>& numbers) {
  const auto number = [&](std::size_t k) { return k < numbers.size() ? static_cast<float>(numbers[k]) : 0.0F; };
  if (name == "window") return {GradientRule::window, number(0), 0};
  if (name == "polynomial") return {GradientRule::polynomial, 0, 0};
  if (name == "tanh") return {GradientRule::tanh, number(0), number(1)};
  throw nb::value_error("the core knows no such gradient rule");
}

void init_block(Block* self, int n, int h, int w, int inputs, int outputs, Pair kernel, Pair stride, Pair padding,
                int groups, bool zero_one, const std::string& rule, const std::vector<double>& rule_numbers,
                double weight_bound, bool identity, bool normalise, bool batch_stats, bool byte_gradients, double eps,
                double momentum, double limit) {
  const BatchShape shape =
      batch_shape(n, h, w, inputs, outputs, kernel[0], kernel[1], stride[0], stride[1], padding[0], padding[1], groups);
  if (n < 1 || groups < 1 || groups > inputs || groups > outputs || shape.oh < 1 || shape.ow < 1)
    throw nb::value_error("the sizes of a block do not fit");
  new (self) Block{shape,
                   zero_one,
                   rule_named(rule, rule_numbers),
                   static_cast<float>(weight_bound),
                   identity,
                   normalise,
                   batch_stats,
                   byte_gradients,
                   eps,
                   momentum,
                   static_cast<float>(limit),
                   usable_features()};
}

BlockTensors block_tensors(const Block& block, const Arrays& arrays, bool is_forward) {
  const BatchShape& s = block.shape;
  const std::size_t ins = product({s.n, s.h, s.w, s.in}), outs = product({s.n, s.oh, s.ow, s.out});
  const std::size_t words = product({s.n, s.h, s.w}) * words_of(s.in);
  const std::size_t in = product({s.in}), out = product({s.out});
  const Groups groups_in = s.ins(), groups_out = s.outs();
  const bool even = groups_in.size(0) == groups_in.largest() && groups_out.size(0) == groups_out.largest();
  const int head = even ? s.groups : s.groups - 1;  // groups whose weights are together
  const std::size_t weights = product({head, groups_out.size(0), groups_in.size(0), s.kh, s.kw});
  const std::size_t tail = even ? 0 : product({groups_out.largest(), groups_in.largest(), s.kh, s.kw});
  BlockTensors t{};
  t.weight = arrays.required<const float>("weight", weights);
  t.tail = even ? nullptr : arrays.required<const float>("tail", tail);
  t.x = arrays.optional<const float>("x", ins);
  t.shortcut = arrays.optional<const float>("shortcut", outs);
  t.factor = arrays.optional<const float>("factor", out);
  t.gamma = arrays.optional<const float>("gamma", out);
  t.beta = arrays.optional<const float>("beta", out);
  t.left = arrays.optional<const float>("left", out);
  t.right = arrays.optional<const float>("right", out);
  t.input_shift = arrays.optional<const float>("input_shift", in);
  t.after = arrays.optional<const float>("after", out);
  t.codes = arrays.optional<std::uint64_t>("x_codes", words);
  t.has_codes = t.codes != nullptr;
  t.inside = arrays.optional<std::uint64_t>(t.has_codes ? "x_inside" : "inside", words);
  if (!t.has_codes) t.codes = arrays.required<std::uint64_t>("codes", words);
  t.y = arrays.required<std::int16_t>("y", outs);
  t.saved = arrays.required<float>("saved", 5 * out);
  if (is_forward) {
    t.x = arrays.required<const float>("x", ins);
    t.running_mean = arrays.optional<const float>("running_mean", out);
    t.running_var = arrays.optional<const float>("running_var", out);
    t.out = arrays.required<float>("out", outs);
    t.new_mean = arrays.optional<float>("new_mean", out);
    t.new_var = arrays.optional<float>("new_var", out);
    const std::size_t out_words = product({s.n, s.oh, s.ow}) * words_of(s.out);
    t.out_codes = arrays.optional<std::uint64_t>("out_codes", out_words);
    t.out_inside = arrays.optional<std::uint64_t>("out_inside", out_words);
    if ((t.out_codes == nullptr) != (t.out_inside == nullptr)) throw nb::value_error("bits of out are missing");
    const bool has_running = t.running_mean != nullptr && t.running_var != nullptr;
    if ((t.new_mean == nullptr) != (t.new_var == nullptr) ||
        ((t.new_mean != nullptr || (block.normalise && !block.batch_stats)) && !has_running))
      throw nb::value_error("running statistics are missing");
    return t;
  }
  t.grad = arrays.required<const float>("grad", outs);
  t.x_grad = arrays.optional<float>("x_grad", ins);
  t.shortcut_grad = arrays.optional<float>("shortcut_grad", outs);
  t.weight_grad = arrays.optional<float>("weight_grad", weights);
  t.tail_grad = arrays.optional<float>("tail_grad", tail);
  t.gamma_grad = arrays.optional<float>("gamma_grad", out);
  t.beta_grad = arrays.optional<float>("beta_grad", out);
  t.left_grad = arrays.optional<float>("left_grad", out);
  t.right_grad = arrays.optional<float>("right_grad", out);
  t.input_shift_grad = arrays.optional<float>("input_shift_grad", in);
  t.after_grad = arrays.optional<float>("after_grad", out);
  t.factor_grad = arrays.optional<float>("factor_grad", out);
  const bool is_linear = t.left == nullptr && t.right == nullptr && std::isinf(block.limit);
  const bool needs_x = (block.identity && !is_linear) || (t.x_grad != nullptr && !keeps_bits(block, t));
  if (needs_x && t.x == nullptr) throw nb::value_error("x is missing");
  if (t.x_grad != nullptr && keeps_bits(block, t) && t.inside == nullptr) throw nb::value_error("inside is missing");
  if (t.x_grad != nullptr && !keeps_bits(block, t) && block.identity && t.shortcut_grad == nullptr)
    throw nb::value_error("shortcut_grad is missing");
  if (t.input_shift_grad != nullptr && t.x_grad == nullptr) throw nb::value_error("x_grad is missing");
  if (!even && (t.weight_grad == nullptr) != (t.tail_grad == nullptr)) throw nb::value_error("tail_grad is missing");
  return t;
}

nb::tuple run_forward(const Block& block, int threads, const Named& arrays) {
  const BlockTensors tensors = block_tensors(block, Arrays(arrays), true);
  ForwardTimes times{};
  {
    const nb::gil_scoped_release release;
    TeamInUse team(threads);
    times = forward(block, tensors, *team);
  }
  return nb::make_tuple(times.pack_weights, times.pack, times.conv, times.activate);
}

nb::tuple run_backward(const Block& block, int threads, const Named& arrays) {
  const BlockTensors tensors = block_tensors(block, Arrays(arrays), false);
  BackwardTimes times{};
  {
    const nb::gil_scoped_release release;
    TeamInUse team(threads);
    times = backward(block, tensors, *team);
  }
  return nb::make_tuple(times.reduce, times.differentiate, times.conv);
}

// 1: all are -1 or +1; 2: all are 0 or 1; 0: neither.
int code_of(std::uintptr_t address, std::size_t count) {
  const auto* x = reinterpret_cast<const float*>(address);
  constexpr std::size_t some = 4096;
  bool signs = true, bits = true;
  for (std::size_t k = 0; k < count && (signs || bits); k += some) {
    bool all_signs = true, all_bits = true;
    for (std::size_t j = k; j < std::min(count, k + some); ++j) {
      all_signs &= x[j] == 1 || x[j] == -1;
      all_bits &= x[j] == 1 || x[j] == 0;
    }
    signs &= all_signs;
    bits &= all_bits;
  }
  return signs ? 1 : bits ? 2 : 0;
}

using Bytes = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>, nb::c_contig>;

// Never destroyed: Python may drop an array after the extension is gone.
Blocks& blocks() {
  static Blocks& found = *new Blocks;
  return found;
}

Bytes take_block(std::size_t bytes) {
  void* block = blocks().take(bytes);
  const nb::capsule owner(block, [](void* given) noexcept { blocks().give_back(given); });
  return Bytes(block, {bytes}, owner);
}

}  // namespace

void bind_training(nb::module_ m) {
  m.doc() =
      "Blocks of a binary network, forward and backward. Arrays are {name: (address, number of elements)}; the headers "
      "of native/training name and describe them.";
  m.def(
      "use_launcher", [](std::uintptr_t launcher) { launch() = reinterpret_cast<Team::Launch>(launcher); }, "address"_a,
      "Runs tasks by the GOMP_parallel at this address; 0 for threads of our own.");
  m.def("take_block", &take_block, "bytes"_a, "Uninitialised memory, kept for the next caller when it is dropped.");
  m.def("release_blocks", [] { blocks().release(); }, "Gives the memory of blocks that nobody has back to the system.");
  m.def("code_of", &code_of, "address"_a, "count"_a,
        "1 if all of so many floats are -1 or +1, 2 if all are 0 or 1, else 0.");
  nb::class_<Block>(m, "Block", "One block for one shape of input.")
      .def("__init__", &init_block, nb::kw_only(), "n"_a, "h"_a, "w"_a, "inputs"_a, "outputs"_a, "kernel"_a, "stride"_a,
           "padding"_a, "groups"_a, "zero_one"_a, "rule"_a, "rule_numbers"_a, "weight_bound"_a, "identity"_a,
           "normalise"_a, "batch_stats"_a, "byte_gradients"_a, "eps"_a, "momentum"_a, "limit"_a)
      .def("forward", &run_forward, "threads"_a, "arrays"_a,
           nb::sig("def forward(self, threads: int, arrays: dict[str, tuple[int, int]]) -> "
                   "tuple[float, float, float, float]"),
           "Seconds of packing weights, packing x, convolution, activation.")
      .def("backward", &run_backward, "threads"_a, "arrays"_a,
           nb::sig("def backward(self, threads: int, arrays: dict[str, tuple[int, int]]) -> "
                   "tuple[float, float, float]"),
           "Seconds of sums, gradient of y, gradients of the convolution.");
}
