// Training, as Python sees it: pointers and sizes, no array type, so that one build serves every version of PyTorch.
// Nothing can be checked here; ftbnn/nn/native*.py are the only callers and check type, layout and size.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>

#include "base/aligned.h"
#include "base/blocks.h"
#include "bindings_rows.h"
#include "training/average.h"
#include "training/binary_conv.h"
#include "training/bindings_address.h"
#include "training/block.h"
#include "training/norm.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace ftbnn;
using namespace ftbnn::training;

Team::Launch launch = nullptr;

// One team for all, made anew when the number of threads changes. One caller at a time.
class TeamInUse {
 public:
  explicit TeamInUse(int threads) : lock_(mutex()) {
    if (!team() || team()->threads() != threads || team()->launch() != launch)
      team() = std::make_unique<Team>(threads, launch);
  }
  Team& operator*() { return *team(); }

  AlignedArray<float>& scratch() {
    static AlignedArray<float> kept;
    return kept;
  }

 private:
  static std::mutex& mutex() {
    static std::mutex found;
    return found;
  }
  static std::unique_ptr<Team>& team() {
    static std::unique_ptr<Team> found;
    return found;
  }
  std::lock_guard<std::mutex> lock_;
};

ConvShape shape_of(const std::array<int, 12>& s) {
  return {s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11]};
}

void init_block(Block* self, const std::array<int, 12>& shape, bool zero_one, float bound, float weight_bound,
                bool identity, bool batch_stats, bool byte_gradients, double eps, double momentum,
                const std::array<Address, 7>& parameters) {
  const auto parameter = [&](std::size_t k) { return at<const float>(parameters[k]); };
  new (self) Block{shape_of(shape), zero_one,     bound,        weight_bound, identity,     batch_stats,
                   byte_gradients,  eps,          momentum,     parameter(0), parameter(1), parameter(2),
                   parameter(3),    parameter(4), parameter(5), parameter(6), isa_in_use()};
}

nb::tuple run_forward(const Block& block, int threads, Address x, Address shortcut, Address running_mean,
                      Address running_var, Address codes, Address inside, Address y, Address saved, Address out) {
  ForwardTimes times{};
  {
    const nb::gil_scoped_release release;
    TeamInUse team(threads);
    times = forward(block, at<const float>(x), at<const float>(shortcut), at<float>(running_mean),
                    at<float>(running_var), at<std::uint64_t>(codes), at<std::uint64_t>(inside), at<std::int16_t>(y),
                    at<float>(saved), at<float>(out), *team);
  }
  return nb::make_tuple(times.pack_weights, times.pack, times.conv, times.activate);
}

nb::tuple run_backward(const Block& block, int threads, Address grad, Address shortcut, Address codes, Address inside,
                       Address y, Address saved, const std::array<Address, 8>& to) {
  const Gradients gradients{at<float>(to[0]), at<float>(to[1]), at<float>(to[2]), at<float>(to[3]),
                            at<float>(to[4]), at<float>(to[5]), at<float>(to[6]), at<float>(to[7])};
  BackwardTimes times{};
  {
    const nb::gil_scoped_release release;
    TeamInUse team(threads);
    times = backward(block, at<const float>(grad), at<const float>(shortcut), at<const std::uint64_t>(codes),
                     at<const std::uint64_t>(inside), at<const std::int16_t>(y), at<const float>(saved), team.scratch(),
                     gradients, *team);
  }
  return nb::make_tuple(times.reduce, times.differentiate, times.conv);
}

using PoolInts = std::array<int, 11>;  // h, w, channels, oh, ow, kh, kw, sh, sw, ph, pw

PoolShape pool_shape(const PoolInts& s, bool count_pad) {
  return {s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], count_pad};
}

void run_average(int threads, const PoolInts& shape, bool count_pad, int n, Address x, Address out) {
  const nb::gil_scoped_release release;
  TeamInUse team(threads);
  average(pool_shape(shape, count_pad), n, at<const float>(x), at<float>(out), isa_in_use(), *team);
}

void run_average_backward(int threads, const PoolInts& shape, bool count_pad, int n, Address grad, Address grad_x) {
  const nb::gil_scoped_release release;
  TeamInUse team(threads);
  average_backward(pool_shape(shape, count_pad), n, at<const float>(grad), at<float>(grad_x), isa_in_use(), *team);
}

void init_norm(Norm* self, const std::array<int, 4>& shape, const std::optional<PoolInts>& pool, bool batch_stats,
               double eps, double momentum, const std::array<Address, 4>& parameters) {
  new (self) Norm{shape[0],
                  shape[1],
                  shape[2],
                  shape[3],
                  pool ? std::optional(pool_shape(*pool, false)) : std::nullopt,
                  batch_stats,
                  eps,
                  momentum,
                  at<const float>(parameters[0]),
                  at<const float>(parameters[1]),
                  at<const float>(parameters[2]),
                  at<const float>(parameters[3]),
                  isa_in_use()};
}

void run_norm(const Norm& norm, int threads, Address x, Address shortcut, Address running_mean, Address running_var,
              Address saved, Address out, Address taps) {
  const nb::gil_scoped_release release;
  TeamInUse team(threads);
  forward(norm, at<const float>(x), at<const float>(shortcut), at<float>(running_mean), at<float>(running_var),
          at<float>(saved), at<float>(out), at<std::uint8_t>(taps), *team);
}

void run_norm_backward(const Norm& norm, int threads, Address grad, Address x, Address shortcut, Address taps,
                       Address saved, const std::array<Address, 6>& to) {
  const nb::gil_scoped_release release;
  TeamInUse team(threads);
  backward(norm, at<const float>(grad), at<const float>(x), at<const float>(shortcut), at<const std::uint8_t>(taps),
           at<const float>(saved),
           {at<float>(to[0]), at<float>(to[1]), at<float>(to[2]), at<float>(to[3]), at<float>(to[4]), at<float>(to[5])},
           *team);
}

bool binary_conv(const std::string& isa, const std::array<int, 12>& sizes, bool zero_one, Address codes, Address weight,
                 Address tail, Address y, Address sums, Address squares, int threads) {
  const Isa found = kernels_named(isa).isa;
  const ConvShape shape = shape_of(sizes);
  const nb::gil_scoped_release release;
  Team team(threads);
  const BinaryConv conv(shape, zero_one, at<const float>(weight), at<const float>(tail), found, team);
  conv.run(at<const std::uint64_t>(codes), at<std::int16_t>(y), at<std::int64_t>(sums), at<std::int64_t>(squares),
           team);
  return BinaryConv::by_tiles(shape, found);
}

using Bytes = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>, nb::c_contig>;

// Never destroyed: Python may drop an array after the extension is gone.
Blocks& blocks() {
  static Blocks& found = *new Blocks;
  return found;
}

int run_tasks(int threads, int count, int failing) {
  std::atomic<int> done{0};
  TeamInUse team(threads);
  (*team).run(count, [&](int task) {
    if (failing != 0 && task % failing == 0) throw std::bad_alloc();
    ++done;
  });
  return done;
}

Bytes take_block(std::size_t bytes) {
  void* block = blocks().take(bytes);
  const nb::capsule owner(block, [](void* given) noexcept { blocks().give_back(given); });
  return Bytes(block, {bytes}, owner);
}

}  // namespace

void bind_training(nb::module_ m) {
  m.doc() = "Blocks of a binary network, forward and backward; native/training/block.h is the contract.";
  m.def(
      "use_launcher", [](Address launcher) { launch = reinterpret_cast<Team::Launch>(launcher); }, "address"_a,
      "Runs tasks by the GOMP_parallel at this address; 0 for threads of our own.");
  m.def("binary_conv", &binary_conv, "isa"_a, "shape"_a, "zero_one"_a, "codes"_a, "weight"_a, "tail"_a, "y"_a, "sums"_a,
        "squares"_a, "threads"_a = 1,
        "A block's convolution alone, for tests; isa as for kernels.bconv_rows. True if tiles did it.");
  m.def("run_tasks", &run_tasks, "threads"_a, "count"_a, "failing"_a,
        "For tests: runs tasks; those whose numbers are multiples of `failing` (0: none) run out of memory.");
  m.def("take_block", &take_block, "bytes"_a, "Uninitialised memory, kept for the next caller when it is dropped.");
  m.def("release_blocks", [] { blocks().release(); }, "Gives the memory of blocks that nobody has back to the system.");
  nb::class_<Block>(m, "Block", "One block for one shape of input; it keeps the addresses of its parameters.")
      .def("__init__", &init_block, "shape"_a, nb::kw_only(), "zero_one"_a, "bound"_a, "weight_bound"_a, "identity"_a,
           "batch_stats"_a, "byte_gradients"_a, "eps"_a, "momentum"_a, "parameters"_a,
           "shape: n, h, w, in, out, kh, kw, sh, sw, ph, pw, groups; parameters: weight, tail, factor, gamma, beta, "
           "left, right.")
      .def_prop_ro(
          "by_tiles", [](const Block& block) { return BinaryConv::by_tiles(block.shape, block.isa); },
          "Whether its forward convolution runs in tiles.")
      .def("forward", &run_forward, "threads"_a, "x"_a, "shortcut"_a, "running_mean"_a, "running_var"_a, "codes"_a,
           "inside"_a, "y"_a, "saved"_a, "out"_a,
           nb::sig("def forward(self, threads: int, x: int, shortcut: int, running_mean: int, running_var: int, "
                   "codes: int, inside: int, y: int, saved: int, out: int) -> tuple[float, float, float, float]"),
           "Seconds of packing weights, packing x, convolution, activation.")
      .def("backward", &run_backward, "threads"_a, "grad"_a, "shortcut"_a, "codes"_a, "inside"_a, "y"_a, "saved"_a,
           "to"_a,
           nb::sig("def backward(self, threads: int, grad: int, shortcut: int, codes: int, inside: int, y: int, "
                   "saved: int, to: Sequence[int]) -> tuple[float, float, float]"),
           "to: gradients of x, shortcut, weight, tail, gamma, beta, left, right. Seconds of sums, gradient of y, "
           "gradients of the convolution.");
  m.def("average", &run_average, "threads"_a, "shape"_a, "count_pad"_a, "n"_a, "x"_a, "out"_a,
        "shape: h, w, channels, oh, ow, kh, kw, sh, sw, ph, pw.");
  m.def("average_backward", &run_average_backward, "threads"_a, "shape"_a, "count_pad"_a, "n"_a, "grad"_a, "grad_x"_a);
  nb::class_<Norm>(m, "Norm", "A BatchNorm for one shape of input; it keeps the addresses of its parameters.")
      .def("__init__", &init_norm, "shape"_a, "pool"_a.none(), nb::kw_only(), "batch_stats"_a, "eps"_a, "momentum"_a,
           "parameters"_a, "shape: n, h, w, channels; pool: as average's shape; parameters: gamma, beta, left, right.")
      .def("forward", &run_norm, "threads"_a, "x"_a, "shortcut"_a, "running_mean"_a, "running_var"_a, "saved"_a,
           "out"_a, "taps"_a)
      .def("backward", &run_norm_backward, "threads"_a, "grad"_a, "x"_a, "shortcut"_a, "taps"_a, "saved"_a, "to"_a,
           "to: gradients of x, shortcut, gamma, beta, left, right.");
}
