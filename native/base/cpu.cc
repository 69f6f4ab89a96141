#include "base/cpu.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "base/arm_name.h"
#include "base/tiles.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace ftbnn {

namespace {

struct Name {
  Features feature;
  const char* text;
};

constexpr Name names[] = {
    {feature::popcnt, "popcnt"},
    {feature::fma, "fma"},
    {feature::f16c, "f16c"},
    {feature::bmi1, "bmi1"},
    {feature::bmi2, "bmi2"},
    {feature::avx2, "avx2"},
    {feature::avx512f, "avx512f"},
    {feature::avx512dq, "avx512dq"},
    {feature::avx512bw, "avx512bw"},
    {feature::avx512vl, "avx512vl"},
    {feature::avx512_vnni, "avx512_vnni"},
    {feature::avx512_vpopcntdq, "avx512_vpopcntdq"},
    {feature::avx512_bitalg, "avx512_bitalg"},
    {feature::avx512_vbmi, "avx512vbmi"},
    {feature::avx512_bf16, "avx512_bf16"},
    {feature::avx_vnni, "avx_vnni"},
    {feature::amx_tile, "amx_tile"},
    {feature::amx_int8, "amx_int8"},
    {feature::amx_bf16, "amx_bf16"},
    {feature::asimd, "asimd"},
    {feature::asimddp, "asimddp"},
    {feature::simd128, "simd128"},
    {feature::relaxed_simd, "relaxed_simd"},
    {feature::emulated_tiles, "emulated_tiles"},
};

constexpr Features TILES = feature::amx_tile | feature::amx_int8 | feature::amx_bf16;

// What an ISA needs to be there at all, and what it lets kernels use beyond that, where the CPU has it.
struct Isa {
  const char* name;
  Features needs, more;
  bool is_for_tests;
};

constexpr Features MORE_AVX512 = feature::avx512_vnni | feature::avx512_vpopcntdq | feature::avx512_bitalg |
                                 feature::avx512_vbmi | feature::avx_vnni | feature::fast_permutes;

// Best first. In builds for tests, amx_emulated runs the AMX kernels with their tiles in plain C++; nothing chooses it
// but FTBNN_ISA.
constexpr Isa table[] = {
    {"amx", AVX512 | feature::amx_tile | feature::amx_int8, MORE_AVX512 | feature::avx512_bf16 | feature::amx_bf16,
     false},
#if defined(FTBNN_TESTS)
    {"amx_emulated", AVX512, MORE_AVX512 | feature::avx512_bf16 | feature::emulated_tiles, true},
#endif
    {"avx512bf16", AVX512 | feature::avx512_bf16, MORE_AVX512, false},
    {"avx512", AVX512, MORE_AVX512, false},
    {"avx2", AVX2, feature::avx_vnni, false},
    {"dotprod", NEON | feature::asimddp, 0, false},
    {"neon", NEON, 0, false},
#if defined(__wasm__)
    {"relaxed", feature::simd128 | feature::relaxed_simd, 0, false},
    {"simd128", feature::simd128, 0, false},
#endif
    {"portable", PORTABLE, 0, false},
};

std::atomic<Features> pretended{0};

bool has(Features features, Features needed) { return (features & needed) == needed; }

#if defined(__x86_64__)

struct Registers {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(std::uint32_t leaf, std::uint32_t subleaf = 0) {
  Registers r;
  if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx)) return {};
  return r;
}

bool bit(std::uint32_t word, int n) { return (word >> n) & 1U; }

// Which register files the operating system saves on a context switch.
std::uint64_t saved_state() {
  if (!bit(cpuid(1).ecx, 27)) return 0;  // OSXSAVE
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

// Linux hands out the 8 KiB of tile registers only to a process that asks (ARCH_REQ_XCOMP_PERM, XTILEDATA).
bool request_tiles() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr long request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

// Family and model tell CPUs apart whose names are the same, as those of many guests are.
std::string kind() {
  const std::uint32_t signature = cpuid(1).eax;
  const std::uint32_t base = signature >> 8 & 15U;
  const std::uint32_t family = base == 15 ? base + (signature >> 20 & 255U) : base;
  const std::uint32_t model = (signature >> 4 & 15U) | (base == 15 || base == 6 ? signature >> 12 & 0xf0U : 0U);
  return " (family " + std::to_string(family) + ", model " + std::to_string(model) + ")";
}

std::string brand() {
  if (cpuid(0x80000000U).eax < 0x80000004U) return "x86-64" + kind();
  char text[49] = {};
  for (std::uint32_t k = 0; k < 3; ++k) {
    const Registers r = cpuid(0x80000002U + k);
    std::memcpy(text + 16 * k, &r, 16);
  }
  const std::string name(text);
  const auto first = name.find_first_not_of(' ');
  return (first == std::string::npos ? "x86-64" : name.substr(first, name.find_last_not_of(' ') - first + 1)) + kind();
}

// What CPUID and the operating system claim; tiles are not yet tried.
Features claimed() {
  const Registers basic = cpuid(1), extended = cpuid(7), extended1 = cpuid(7, 1);
  const std::uint64_t saved = saved_state();
  constexpr std::uint64_t ymm_state = 0x6, zmm_state = 0xe6, tile_state = 0x60000;
  const bool has_ymm = has(saved, ymm_state), has_zmm = has(saved, zmm_state), has_tiles = has(saved, tile_state);
  Features found = 0;
  const auto add = [&found](Features feature, bool present) { found |= present ? feature : 0; };
  add(feature::popcnt, bit(basic.ecx, 23));
  add(feature::fma, has_ymm && bit(basic.ecx, 12));
  add(feature::f16c, has_ymm && bit(basic.ecx, 29));
  add(feature::bmi1, bit(extended.ebx, 3));
  add(feature::bmi2, bit(extended.ebx, 8));
  add(feature::avx2, has_ymm && bit(extended.ebx, 5));
  add(feature::avx512f, has_zmm && bit(extended.ebx, 16));
  add(feature::avx512dq, has_zmm && bit(extended.ebx, 17));
  add(feature::avx512bw, has_zmm && bit(extended.ebx, 30));
  add(feature::avx512vl, has_zmm && bit(extended.ebx, 31));
  add(feature::avx512_vnni, has_zmm && bit(extended.ecx, 11));
  add(feature::avx512_vpopcntdq, has_zmm && bit(extended.ecx, 14));
  add(feature::avx512_bitalg, has_zmm && bit(extended.ecx, 12));
  add(feature::avx512_vbmi, has_zmm && bit(extended.ecx, 1));
  add(feature::avx512_bf16, has_zmm && bit(extended1.eax, 5));
  add(feature::avx_vnni, has_ymm && bit(extended1.eax, 4));
  add(feature::amx_tile, has_tiles && bit(extended.edx, 24));
  add(feature::amx_int8, has_tiles && bit(extended.edx, 25));
  add(feature::amx_bf16, has_tiles && bit(extended.edx, 22));
  constexpr std::uint32_t amd = 0x68747541;  // "Auth" of AuthenticAMD
  add(feature::fast_permutes, has_zmm && bit(extended.ebx, 30) && cpuid(0).ebx == amd);
  return found;
}

// The tile features that work: a machine that claims more than it has must not give wrong sums.
Features working_tiles(Features claimed_features) {
  if (!has(claimed_features, feature::amx_tile) || !request_tiles()) return 0;
  Features found = feature::amx_tile;
  if (has(claimed_features, feature::amx_int8) && tiles_multiply(TileDot::i8) && tiles_multiply(TileDot::u8i8)) {
    found |= feature::amx_int8;
  }
  if (has(claimed_features, feature::amx_bf16) && tiles_multiply(TileDot::bf16)) found |= feature::amx_bf16;
  return found;
}

#elif defined(__aarch64__)

std::string brand() { return arm_name(); }

bool has_dot_products() {
#if defined(__linux__)
  constexpr unsigned long asimddp = 1UL << 20;  // HWCAP_ASIMDDP, which old headers lack
  return (getauxval(AT_HWCAP) & asimddp) != 0;
#elif defined(__APPLE__)
  int found = 0;
  std::size_t size = sizeof found;
  return sysctlbyname("hw.optional.arm.FEAT_DotProd", &found, &size, nullptr, 0) == 0 && found != 0;
#else
  return false;
#endif
}

Features claimed() { return feature::asimd | (has_dot_products() ? feature::asimddp : 0); }
Features working_tiles(Features) { return 0; }

#else

std::string brand() {
#if defined(__wasm__)
  return "WebAssembly";
#else
  return "unknown architecture";
#endif
}

Features claimed() {
  // A module whose instructions are not there is refused before it could ask.
#if defined(FTBNN_RELAXED)
  return feature::simd128 | feature::relaxed_simd;
#elif defined(__wasm__)
  return feature::simd128;
#else
  return 0;
#endif
}
Features working_tiles(Features) { return 0; }

#endif

const char* forced_isa() {
  const char* name = std::getenv("FTBNN_ISA");
  return name == nullptr ? "" : name;
}

// Nobody touches the tile registers where an ISA without them is forced: they cost a process 8 KiB a thread.
bool may_try_tiles() {
  const char* forced = forced_isa();
  return *forced == '\0' || std::strcmp(forced, table[0].name) == 0;
}

bool is_there(const Isa& isa) { return has(cpu_features(), isa.needs); }

std::string listed(bool all) {
  std::string text;
  for (const Isa& isa : table) {
    if (!isa.is_for_tests && (all || is_there(isa))) text += (text.empty() ? "" : ", ") + std::string(isa.name);
  }
  return text;
}

// "" is the one that FTBNN_ISA names, or else the best.
const Isa& isa_named(const std::string& wanted) {
  const std::string name = wanted.empty() ? forced_isa() : wanted, said = wanted.empty() ? "FTBNN_ISA=" + name : name;
  for (const Isa& isa : table) {
    if (name.empty() ? isa.is_for_tests : name != isa.name) continue;
    if (is_there(isa)) return isa;
    if (!name.empty()) throw std::invalid_argument(said + ": this CPU has no " + name + "; it has " + listed(false));
  }
  throw std::invalid_argument(said + " is not an ISA; choose one of " + listed(true));
}

}  // namespace

std::string cpu_name() {
  static const std::string found = brand();
  return found;
}

Features cpu_features() {
  static const Features found = claimed();
  if (!may_try_tiles()) return (found & ~TILES) | pretended;
  static const Features tiles = working_tiles(found);
  return (found & ~TILES) | tiles | pretended;
}

std::vector<std::string> feature_names(Features features) {
  std::vector<std::string> found;
  for (const Name& name : names) {
    if (has(features, name.feature)) found.emplace_back(name.text);
  }
  return found;
}

std::vector<std::string> isas() {
  std::vector<std::string> found;
  for (const Isa& isa : table) {
    if (!isa.is_for_tests && is_there(isa)) found.emplace_back(isa.name);
  }
  return found;
}

std::string isa_in_use() { return isa_named("").name; }

Features usable_features() { return usable_features(""); }

Features usable_features(const std::string& name) {
  const Isa& isa = isa_named(name);
  return ((cpu_features() | feature::emulated_tiles) & (isa.needs | isa.more)) | feature::other_rounding;
}

void pretend(Features features) { pretended |= features; }

}  // namespace ftbnn
