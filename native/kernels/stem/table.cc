#include "base/table.h"

#include "kernels/stem/layouts.h"

namespace ftbnn {

extern const SliceKernels slices__amx, slices__amx_emulated;
extern const DotKernels dots__avx512vnni, dots__avxvnni, dots__dotprod, dots__portable;

namespace {

// Without products of bytes floats are faster (docs/decisions/0014): takes such stems and makes nothing of them.
[[maybe_unused]] StemKernels in_floats() {
  return {[](const StemShape& shape) { return suits_dots(shape, dots__portable); },
          [](const StemShape&) { return Sizes{}; }, [](const StemShape&) { return std::unique_ptr<Stem>(); }};
}

}  // namespace

const Table<StemKernels>& stem_table() {
  static const Table<StemKernels> table = {
#if defined(__x86_64__)
      {"amx", AVX512 | feature::amx_tile | feature::amx_int8, by_slices<slices__amx>()},
#if defined(FTBNN_TESTS)
      {"amx_emulated", AVX512 | feature::emulated_tiles, by_slices<slices__amx_emulated>()},
#endif
      {"avx512vnni", AVX512 | feature::avx512_vnni, by_dots<dots__avx512vnni>()},
#if defined(FTBNN_AVXVNNI)
      {"avxvnni", AVX2 | feature::avx_vnni, by_dots<dots__avxvnni>()},
#endif
      {"none", AVX2, in_floats()},
#elif defined(__aarch64__)
      {"dotprod", NEON | feature::asimddp, by_dots<dots__dotprod>()},
      {"none", NEON, in_floats()},
#endif
      {"portable", PORTABLE, by_dots<dots__portable>()},
  };
  return table;
}

}  // namespace ftbnn
