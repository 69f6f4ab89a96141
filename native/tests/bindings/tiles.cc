// The tile kernels, for tests; native/kernels/bconv_rows.h and native/base/tiles.h are the contracts.
#include "bindings_tiles.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <iterator>

#include "base/aligned.h"
#include "base/tiles.h"
#include "bindings_arrays.h"
#include "bindings_rows.h"
#include "tests/tile_trap.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using ftbnn::PANEL;

bool traps_tiles = false;

// Memory that a kernel is told to be `size` bytes, with a guard behind it.
class Guarded {
 public:
  explicit Guarded(std::size_t size) : size_(size), bytes_(size + GUARD) {
    std::fill_n(bytes_.data(), size + GUARD, MARK);
  }
  std::uint8_t* data() { return bytes_.data(); }
  void check() const {
    const std::uint8_t* guard = bytes_.data() + size_;
    require(std::all_of(guard, guard + GUARD, [](std::uint8_t byte) { return byte == MARK; }), "written past the end");
  }

 private:
  static constexpr std::size_t GUARD = 256;
  static constexpr std::uint8_t MARK = 0xa5;
  std::size_t size_;
  ftbnn::AlignedArray<std::uint8_t> bytes_;
};

template <typename T>
using Map = std::optional<Strided<T, -1, -1, -1>>;

// Output rows of output positions, of at least `count` values side by side.
template <typename T>
void take(const Map<T>& map, int rows, int width, int count, const char* what, T*& data, std::size_t& stride,
          std::size_t& row) {
  if (!map) return;
  require(static_cast<int>(map->shape(0)) == rows && static_cast<int>(map->shape(1)) == width &&
              static_cast<int>(map->shape(2)) >= count && map->stride(0) >= 0 && map->stride(1) >= count &&
              map->stride(2) == 1,
          what);
  data = map->data();
  stride = map->stride(1);
  row = map->stride(0);
}

void bconv_rows(const std::string& isa, const Packed<std::uint64_t, -1, -1, -1>& image,
                const Packed<std::uint64_t, -1, -1, -1, PANEL>& weights, const std::vector<int>& inside,
                int channels_in, const std::vector<int>& stride, int first, int last, int width, int channels,
                bool zero_one, const std::string& act, const Packed<float, 4, PANEL>& scales,
                const Map<const float>& shortcut, const Map<float>& out, const Map<std::uint32_t>& codes) {
  const ftbnn::Kernels& kernels = ftbnn::kernels_named(isa);
  require(kernels.bconv_rows != nullptr, "this isa has no tiles");
  require(inside.size() == 4 && stride.size() == 2, "inside is (top, left, height, width), stride (down, right)");
  ftbnn::BConvRows rows = {};
  ftbnn::CodeImage& in = rows.image;
  in.codes = image.data();
  in.rows = static_cast<int>(image.shape(0));
  in.columns = static_cast<int>(image.shape(1));
  in.words = static_cast<int>(image.shape(2));
  in.channels = channels_in;
  in.top = inside[0];
  in.left = inside[1];
  in.height = inside[2];
  in.width = inside[3];
  in.stride_y = stride[0];
  in.stride_x = stride[1];
  in.zero_one = zero_one;
  rows.weights = weights.data();
  rows.kh = static_cast<int>(weights.shape(0));
  rows.kw = static_cast<int>(weights.shape(1));
  rows.width = width;
  rows.first = first;
  rows.last = last;
  rows.channels = channels;
  require(reinterpret_cast<std::uintptr_t>(weights.data()) % 64 == 0, "weights must start on a 64-byte boundary");
  require(static_cast<int>(weights.shape(2)) == in.words && rows.kh >= 1 && rows.kw >= 1 && in.words >= 1,
          "weights must be [kh][kw][words of a position][32]");
  require(channels_in > 64 * (in.words - 1) && channels_in <= 64 * in.words, "channels_in must fill the words");
  require(in.stride_y >= 1 && in.stride_x >= 1 && width >= 1 && first >= 0 && first < last, "sizes must be 1 or more");
  require(channels >= 1 && channels <= PANEL, "channels must be 1 to 32");
  require(in.rows >= (last - 1) * in.stride_y + rows.kh && in.columns >= (width - 1) * in.stride_x + rows.kw,
          "image must hold every tap");
  rows.end.scale = scales.data();
  rows.end.shift = rows.end.scale + PANEL;
  rows.end.left = rows.end.shift + PANEL;
  rows.end.right = rows.end.left + PANEL;
  rows.end.act = ftbnn::act_named(act);
  take(shortcut, last - first, width, channels, "shortcut must be [rows][width][>= channels]", rows.end.shortcut,
       rows.end.shortcut_stride, rows.shortcut_row);
  take(out, last - first, width, channels, "out must be [rows][width][>= channels]", rows.end.out, rows.end.out_stride,
       rows.out_row);
  take(codes, last - first, width, 1, "codes must be [rows][width][>= 1]", rows.end.codes, rows.end.codes_stride,
       rows.codes_row);
  Guarded bytes(ftbnn::code_bytes(in));
  Guarded scratch(ftbnn::scratch_bytes(static_cast<std::size_t>(rows.kh * rows.kw * in.words)));
  in.bytes = reinterpret_cast<std::int8_t*>(bytes.data());
  rows.scratch = scratch.data();
  kernels.expand_rows(in, 0, in.rows);
  kernels.bconv_rows(rows);
  bytes.check();
  scratch.check();
}

void tile_product(const std::string& isa, const std::string& kind, const Packed<std::uint8_t, -1, -1>& a,
                  const Packed<std::uint8_t, -1, -1>& b,
                  const nb::ndarray<nb::numpy, std::uint8_t, nb::shape<-1, -1>, nb::c_contig, nb::device::cpu>& c) {
  const char* names[] = {"i8", "u8i8", "bf16"};
  const auto found = std::find(std::begin(names), std::end(names), kind);
  require(found != std::end(names), "kind must be i8, u8i8 or bf16");
  require(isa == "amx_emulated" || (isa == "amx" && traps_tiles), "isa must be amx_emulated, or amx after trap_tiles");
  const auto dot = static_cast<ftbnn::TileDot>(found - std::begin(names));
  const std::size_t m = a.shape(0), k = b.shape(0), n = b.shape(1) / 4;
  require(a.shape(1) == 4 * k && b.shape(1) == 4 * n && c.shape(0) == m && c.shape(1) == 4 * n,
          "a must be [m][4 k], b [k][4 n], c [m][4 n]");
  require(m >= 1 && m <= 16 && n >= 1 && n <= 16 && k >= 1 && k <= 16, "tiles have 1 to 16 rows and dwords");
  ftbnn::tile_product(isa == "amx_emulated", dot, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k),
                      a.data(), b.data(), c.data());
}

}  // namespace

const ftbnn::Kernels* ftbnn::tile_kernels_named(const std::string& name) {
  const std::vector<Isa>& isas = cpu().isas;
  const bool has_avx512 = std::find(isas.begin(), isas.end(), Isa::avx512) != isas.end();
  if (has_avx512 && name == "amx_emulated") return &kernels_for(Isa::amx_emulated);
  if (has_avx512 && name == "amx" && traps_tiles) return &kernels_for(Isa::amx);
  return nullptr;
}

void bind_tiles(nb::module_& m) {
  m.def("bconv_rows", &bconv_rows, "isa"_a, "image"_a.noconvert(), "weights"_a.noconvert(), nb::kw_only(), "inside"_a,
        "channels_in"_a, "stride"_a, "first"_a, "last"_a, "width"_a, "channels"_a, "zero_one"_a, "act"_a,
        "scales"_a.noconvert(), "shortcut"_a.noconvert() = nb::none(), "out"_a.noconvert() = nb::none(),
        "codes"_a.noconvert() = nb::none(),
        "Binary convolution of some output rows with tiles; isa may be amx_emulated where there is avx512.");
  m.def(
      "trap_tiles", [] { return traps_tiles = ftbnn::trap_tiles(); },
      "Lets the kernels of amx run here, on a CPU without AMX by decoding every tile instruction; False if they "
      "cannot.");
  m.def("tile_product", &tile_product, "isa"_a, "kind"_a, "a"_a.noconvert(), "b"_a.noconvert(), "c"_a.noconvert(),
        "c += a b on the bytes of three tiles; kind is i8, u8i8 or bf16.");
}
