// Training, as Python sees it: pointers and sizes, no array type, so that one build serves every version of PyTorch.
// Nothing can be checked here; ftbnn/nn/native.py is the only caller and checks type, layout and size.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>

#include <array>
#include <memory>
#include <mutex>

#include "base/aligned.h"
#include "training/block.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace ftbnn;
using namespace ftbnn::training;

using Address = std::uintptr_t;  // 0 is null

template <typename T>
T* at(Address address) {
  return reinterpret_cast<T*>(address);
}

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

void init_block(Block* self, const std::array<int, 12>& s, bool zero_one, float bound, float weight_bound,
                bool identity, bool batch_stats, double eps, double momentum,
                const std::array<Address, 7>& parameters) {
  const auto parameter = [&](std::size_t k) { return at<const float>(parameters[k]); };
  new (self) Block{{s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11]},
                   zero_one,
                   bound,
                   weight_bound,
                   identity,
                   batch_stats,
                   eps,
                   momentum,
                   parameter(0),
                   parameter(1),
                   parameter(2),
                   parameter(3),
                   parameter(4),
                   parameter(5),
                   parameter(6),
                   isa_in_use()};
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

}  // namespace

void bind_training(nb::module_ m) {
  m.doc() = "Blocks of a binary network, forward and backward; native/training/block.h is the contract.";
  m.def(
      "use_launcher", [](Address launcher) { launch = reinterpret_cast<Team::Launch>(launcher); }, "address"_a,
      "Runs tasks by the GOMP_parallel at this address; 0 for threads of our own.");
  nb::class_<Block>(m, "Block", "One block for one shape of input; it keeps the addresses of its parameters.")
      .def("__init__", &init_block, "shape"_a, nb::kw_only(), "zero_one"_a, "bound"_a, "weight_bound"_a, "identity"_a,
           "batch_stats"_a, "eps"_a, "momentum"_a, "parameters"_a,
           "shape: n, h, w, in, out, kh, kw, sh, sw, ph, pw, groups; parameters: weight, tail, factor, gamma, beta, "
           "left, right.")
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
}
