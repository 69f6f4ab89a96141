// The native code as tests reach into it: every kernel by its name, and the specifications.
#include "tests/bindings/module.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "kernels/bconv/bconv.h"
#include "kernels/between/between.h"
#include "kernels/block/block.h"
#include "kernels/conv/conv.h"
#include "kernels/conv_grad/conv_grad.h"
#include "kernels/norm/norm.h"
#include "kernels/pool/pool.h"
#include "kernels/stem/stem.h"
#include "tests/bindings/arrays.h"
#include "tests/emulated/tiles.h"
#include "tests/tile_trap.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace ftbnn;

std::vector<std::string> kernels(const std::string& family) {
  const Features usable = testable();
  if (family == "conv") return conv_table().names(usable);
  if (family == "bconv") return bconv_table().names(usable);
  if (family == "stem") return stem_table().names(usable);
  if (family == "between") return between_table().names(usable);
  if (family == "block") return block_table().names(usable);
  if (family == "norm") return norm_table().names(usable);
  if (family == "pool") return pool_table().names(usable);
  throw nb::value_error("no such family");
}

// From now on the AMX kernels run here: on a CPU without AMX every tile instruction is decoded.
bool trap() {
  if (!trap_tiles()) return false;
  pretend(feature::amx_tile | feature::amx_int8 | feature::amx_bf16);
  return true;
}

#if defined(__x86_64__)
using TilesOfCpu = Tiles;
#else
using TilesOfCpu = EmulatedTiles;  // never run: the CPU has none
#endif

void multiply(bool emulated, const std::string& kind, const Packed<std::uint8_t, -1, -1>& a,
              const Packed<std::uint8_t, -1, -1>& b,
              const nb::ndarray<nb::numpy, std::uint8_t, nb::shape<-1, -1>, nb::c_contig, nb::device::cpu>& c) {
  const char* names[] = {"i8", "u8i8", "bf16"};
  const auto found = std::find(std::begin(names), std::end(names), kind);
  require(found != std::end(names), "kind must be i8, u8i8 or bf16");
  require(emulated || (cpu_features() & feature::amx_tile) != 0, "there are no tiles");
  const std::size_t m = a.shape(0), k = b.shape(0), n = b.shape(1) / 4;
  require(a.shape(1) == 4 * k && b.shape(1) == 4 * n && c.shape(0) == m && c.shape(1) == 4 * n,
          "a must be [m][4 k], b [k][4 n], c [m][4 n]");
  require(m >= 1 && m <= 16 && n >= 1 && n <= 16 && k >= 1 && k <= 16, "tiles have 1 to 16 rows and dwords");
  const auto product = emulated ? tile_product<EmulatedTiles> : tile_product<TilesOfCpu>;
  product(static_cast<TileDot>(found - std::begin(names)), static_cast<int>(m), static_cast<int>(n),
          static_cast<int>(k), a.data(), b.data(), c.data());
}

// The rows that a CPU with these features would use, by family.
nb::dict chosen(const std::vector<std::string>& names) {
  Features usable = 0;
  for (int bit = 0; bit < 64; ++bit) {
    for (const std::string& name : feature_names(Features{1} << bit)) {
      if (std::find(names.begin(), names.end(), name) != names.end()) usable |= Features{1} << bit;
    }
  }
  require(feature_names(usable).size() == names.size(), "a feature that is not known");
  nb::dict rows;
  rows["conv"] = conv_table().best(usable).name;
  rows["bconv"] = bconv_table().best(usable).name;
  rows["stem"] = stem_table().best(usable).name;
  rows["between"] = between_table().best(usable).name;
  rows["block"] = block_table().best(usable).name;
  rows["norm"] = norm_table().best(usable).name;
  rows["pool"] = pool_table().best(usable).name;
  rows["gradients"] = grad_table().best(usable).name;
  rows["byte_gradients"] = byte_grad_table().best(usable).name;
  return rows;
}

}  // namespace

NB_MODULE(_native_tests, m) {
  m.doc() = "What tests need of the native code; no part of the package.";
  m.def("kernels", &kernels, "family"_a, "Names of a family's kernels that can run here, best first.");
  m.def("features", [] { return feature_names(cpu_features()); });
  m.def("trap_tiles", &trap, "Lets the kernels of amx run here; False if they cannot.");
  m.def("tile_product", &multiply, "emulated"_a, "kind"_a, "a"_a.noconvert(), "b"_a.noconvert(), "c"_a.noconvert(),
        "c += a b on the bytes of three tiles; kind is i8, u8i8 or bf16.");
  m.def("chosen", &chosen, "features"_a, "The rows that a CPU with these features would use, by family.");
  m.def("shown", &shown, "text"_a, "most"_a, "Text from a file on one line.");
  bind_convolutions(m);
  bind_rows(m);
  bind_gradients(m);
}
