// The parts of a training block by any kernel, on NumPy's arrays.
#include "kernels/conv_grad/conv_grad.h"

#include "tests/bindings/arrays.h"
#include "tests/bindings/module.h"
#include "training/binary_conv.h"
#include "training/conv_grad.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace ftbnn;
using namespace ftbnn::training;

using Address = std::uintptr_t;  // 0 is null
using Sizes12 = std::array<int, 12>;

template <typename T>
T* at(Address address) {
  return reinterpret_cast<T*>(address);
}

BatchShape shape_of(const Sizes12& s) {
  return batch_shape(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11]);
}

// Rows of both tables; those of bytes have their own names.
const GradKernels& grad_kernels(const std::string& name) {
  constexpr const char* bytes = " bytes";
  const std::size_t end = name.rfind(bytes);
  return end == std::string::npos ? kernels_named(grad_table(), name)
                                  : kernels_named(byte_grad_table(), name.substr(0, end));
}

std::vector<std::string> names() {
  std::vector<std::string> found = grad_table().names(testable());
  for (const std::string& name : byte_grad_table().names(testable())) found.push_back(name + " bytes");
  return found;
}

// The features that one row of the binary convolutions needs, and no more.
Features features_of(const std::string& name) {
  const Row<BConvKernels>* row = bconv_table().named(name, testable());
  require(row != nullptr, "no such kernels on this CPU");
  return row->needs;
}

void binary_conv(const std::string& name, const Sizes12& sizes, bool zero_one, Address codes, Address weight,
                 Address tail, Address y, Address sums, Address squares, int threads) {
  const Features usable = features_of(name);
  const nb::gil_scoped_release release;
  Team team(threads);
  const BinaryConv conv(shape_of(sizes), zero_one, at<const float>(weight), at<const float>(tail), usable, team);
  conv.run(at<const std::uint64_t>(codes), at<std::int16_t>(y), at<std::int64_t>(sums), at<std::int64_t>(squares),
           team);
}

void conv_gradients(const std::string& name, const Sizes12& sizes, Address gy, Address weight, Address tail,
                    Address inside, Address gx, bool adds, Address codes, bool zero_one, float bound, Address gw,
                    Address gtail, int threads) {
  const GradKernels& kernels = grad_kernels(name);
  const BatchShape shape = shape_of(sizes);
  const nb::gil_scoped_release release;
  Team team(threads);
  std::optional<ToInput> to_input;
  std::optional<ToWeight> to_weight;
  if (gx != 0) to_input = {at<const std::uint64_t>(inside), at<float>(gx), adds};
  if (gw != 0) to_weight = {at<const std::uint64_t>(codes), zero_one, bound, at<float>(gw), at<float>(gtail)};
  gradients(shape, whole(shape, at<const float>(gy), kernels, team), at<const float>(weight), at<const float>(tail),
            to_input, to_weight, kernels, team);
}

int run_tasks(int threads, int count, int failing, Address launcher) {
  std::atomic<int> done{0};
  Team team(threads, reinterpret_cast<Team::Launch>(launcher));
  team.run(count, [&](int task) {
    if (failing != 0 && task % failing == 0) throw std::bad_alloc();
    ++done;
  });
  return done;
}

}  // namespace

void bind_gradients(nb::module_& m) {
  m.def("grad_kernels", &names, "Names of the kernels that run here; those of bytes end so.");
  m.def("binary_conv", &binary_conv, "name"_a, "shape"_a, "zero_one"_a, "codes"_a, "weight"_a, "tail"_a, "y"_a,
        "sums"_a, "squares"_a, "threads"_a, "A block's convolution alone, by a row of the binary convolutions.");
  m.def("conv_gradients", &conv_gradients, "name"_a, "shape"_a, "gy"_a, "weight"_a, "tail"_a, nb::kw_only(),
        "inside"_a = 0, "gx"_a = 0, "adds"_a = true, "codes"_a = 0, "zero_one"_a = false, "bound"_a = 0.0F, "gw"_a = 0,
        "gtail"_a = 0, "threads"_a = 1,
        "Both gradients, or one; gx is added to, or made. Addresses; shape: n, h, w, in, out, kh, kw, sh, sw, ph, pw, "
        "groups.");
  m.def("run_tasks", &run_tasks, "threads"_a, "count"_a, "failing"_a, "launcher"_a = 0,
        "Runs tasks; those whose numbers are multiples of `failing` (0: none) run out of memory.");
}
