#include "base/table.h"

#include "kernels/bconv/layouts.h"

namespace ftbnn {

extern const TileKernels tiles__amx, tiles__amx_emulated;
extern const AdderKernels adders__avx512;
extern const PlaneKernels planes__bitalg, planes__avx512, planes__avx2;
extern const WordKernels words__avx512, words__avx2, words__neon, words__relaxed, words__simd128, words__portable;

const Table<BConvKernels>& bconv_table() {
  static const Table<BConvKernels> table = {
#if defined(__x86_64__)
      {"amx", AVX512 | feature::amx_tile | feature::amx_int8, by_tiles<tiles__amx>()},
#if defined(FTBNN_TESTS)
      {"amx_emulated", AVX512 | feature::emulated_tiles, by_tiles<tiles__amx_emulated>()},
#endif
      {"avx512 planes", AVX512 | feature::avx512_bitalg, by_planes<planes__bitalg>()},
      {"avx512", AVX512 | feature::avx512_vpopcntdq, by_words<words__avx512>()},
      {"avx512 adders", AVX512, by_adders<adders__avx512>()},
      {"avx512 tables", AVX512, by_planes<planes__avx512>()},
      {"avx2 nibbles", AVX2, by_words<words__avx2>()},
      {"avx2", AVX2, by_planes<planes__avx2>()},
#elif defined(__aarch64__)
      {"neon", NEON, by_words<words__neon>()},
#elif defined(__wasm__)
#if defined(FTBNN_RELAXED)
      {"relaxed", feature::simd128 | feature::relaxed_simd, by_words<words__relaxed>()},
#endif
      {"simd128", feature::simd128, by_words<words__simd128>()},
#endif
      {"portable", PORTABLE, by_words<words__portable>()},
  };
  return table;
}

int same_group(const CodeLayout& layout, int group) {
  const auto runs = [&](int g) -> const std::vector<BitRun>& { return layout.groups[static_cast<std::size_t>(g)]; };
  for (const int other : {0, group - 1, group - static_cast<int>(layout.groups.size()) / 2}) {
    if (other >= 0 && other < group && runs(other) == runs(group)) return other;
  }
  return -1;
}

std::size_t weight_words(const ConvShape& s) {
  const Groups ins = s.ins(), outs = s.outs();
  const auto channels = [&](int g) { return static_cast<std::size_t>(outs.size(g)) * words_of(ins.size(g)); };
  return (static_cast<std::size_t>(s.groups - 1) * channels(0) + channels(s.groups - 1)) *
         static_cast<std::size_t>(s.taps());
}

}  // namespace ftbnn
