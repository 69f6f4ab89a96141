// The extension: what this machine can do, and its parts.
#include "bindings/module.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "base/cores.h"
#include "base/table.h"
#include "base/tiles.h"
#include "kernels/bconv/bconv.h"
#include "kernels/between/between.h"
#include "kernels/block/block.h"
#include "kernels/conv/conv.h"
#include "kernels/conv_grad/conv_grad.h"
#include "kernels/norm/norm.h"
#include "kernels/pool/pool.h"
#include "kernels/real_conv/real_conv.h"
#include "kernels/stem/stem.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace ftbnn;

// The kernels of an engine, one name behind the other.
std::string engine_kernels(Features usable) {
  return std::string(conv_table().best(usable).name) + bconv_table().best(usable).name +
         stem_table().best(usable).name + between_table().best(usable).name;
}

// ISAs whose engines differ: of several that come to the same kernels the plainest.
std::vector<std::string> engine_isas() {
  std::vector<std::string> found;
  std::string before;
  for (const std::string& isa : isas()) {
    const std::string kernels = engine_kernels(usable_features(isa));
    if (kernels == before) found.pop_back();
    found.push_back(isa);
    before = kernels;
  }
  return found;
}

// A row's name without that of its layout.
std::string isa_of(const std::string& row) { return row.substr(0, row.find(' ')); }

nb::dict capabilities() {
  const Features usable = usable_features();
  nb::dict kernels, training, all;
  kernels["conv"] = isa_of(conv_table().best(usable).name);
  kernels["bconv"] = isa_of(bconv_table().best(usable).name);
  kernels["stem"] = isa_of(stem_table().best(usable).name);
  kernels["between"] = isa_of(between_table().best(usable).name);
  kernels["block"] = isa_of(block_table().best(usable).name);
  kernels["norm"] = isa_of(norm_table().best(usable).name);
  kernels["pool"] = isa_of(pool_table().best(usable).name);
  kernels["real_conv"] = isa_of(real_conv_table().best(usable).name);
  kernels["gradients"] = isa_of(grad_table().best(usable).name);
  kernels["byte_gradients"] = isa_of(byte_grad_table().best(usable).name);
  const auto has_own = [&](const auto& table) { return table.best(usable).needs != PORTABLE; };
  training["faster"] = has_own(grad_table());
  training["bytes"] = has_own(byte_grad_table());
  all["cpu"] = cpu_name();
  all["features"] = nb::cast(feature_names(cpu_features()));
  all["isas"] = nb::cast(isas());
  all["isa"] = isa_in_use();
  all["engine_isas"] = nb::cast(engine_isas());
  all["kernels"] = kernels;
  all["training"] = training;
  return all;
}

// What the core calls an invalid argument (FTBNN_ISA, threads, images of NaN) is a user's mistake.
void translate_mistake(const std::exception_ptr& thrown, void* user_error) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::invalid_argument& mistake) {
    PyErr_SetString(static_cast<PyObject*>(user_error), mistake.what());
  }
}

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "The native core.";
  nb::set_leak_warnings(false);  // of what a script still holds at its end: a loss, and with it the blocks behind it
  const nb::object user_error = nb::module_::import_("ftbnn.errors").attr("UserError");
  nb::register_exception_translator(&translate_mistake, user_error.inc_ref().ptr());
  m.def("capabilities", &capabilities, nb::sig("def capabilities() -> dict[str, typing.Any]"),
        "What this machine can do: cpu, features and isas that may run here, best first; the isa in use (the best, or "
        "the one FTBNN_ISA names), which kernels that means by family, isas whose engines differ, and whether training "
        "has kernels of its own that are faster than PyTorch's, and such for gradients in bytes. Raises UserError if "
        "FTBNN_ISA names one that cannot be used.");
  m.def("cores", &usable_cores, "Cores that this process may use: of its affinity, and of a container's quota.");
  m.def("hides_tile_palette", &hides_tile_palette, "True where libraries that use AMX end in SIGILL.");
  bind_engine(m);
  nb::module_ training = m.def_submodule("training");
  bind_training(training);
  bind_training_real(training);
  bind_data(m.def_submodule("data"));
#if defined(FTBNN_BENCH)
  bind_bench(m.def_submodule("bench"));
#endif
}
