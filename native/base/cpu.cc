#include "base/cpu.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "base/tiles.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace ftbnn {

namespace {

constexpr Isa all_isas[] = {Isa::amx, Isa::avx512bf16, Isa::avx512, Isa::avx2, Isa::portable};

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

std::string brand() {
  if (cpuid(0x80000000U).eax < 0x80000004U) return "x86-64";
  char text[49] = {};
  for (std::uint32_t k = 0; k < 3; ++k) {
    const Registers r = cpuid(0x80000002U + k);
    std::memcpy(text + 16 * k, &r, 16);
  }
  const std::string name(text);
  const auto first = name.find_first_not_of(' ');
  return first == std::string::npos ? "x86-64" : name.substr(first, name.find_last_not_of(' ') - first + 1);
}

Cpu detect() {
  Cpu found;
  found.name = brand();
  const Registers basic = cpuid(1), extended = cpuid(7), extended1 = cpuid(7, 1);
  const std::uint64_t saved = saved_state();
  constexpr std::uint64_t ymm_state = 0x6, zmm_state = 0xe6, tile_state = 0x60000;
  const bool has_ymm = (saved & ymm_state) == ymm_state;
  const bool has_zmm = (saved & zmm_state) == zmm_state;
  const bool has_tiles = (saved & tile_state) == tile_state;

  const auto feature = [&found](const char* name, bool present) {
    if (present) found.features.emplace_back(name);
    return present;
  };
  const bool popcnt = feature("popcnt", bit(basic.ecx, 23));
  const bool fma = feature("fma", has_ymm && bit(basic.ecx, 12));
  const bool f16c = feature("f16c", has_ymm && bit(basic.ecx, 29));
  const bool bmi1 = feature("bmi1", bit(extended.ebx, 3));
  const bool bmi2 = feature("bmi2", bit(extended.ebx, 8));
  const bool avx2 = feature("avx2", has_ymm && bit(extended.ebx, 5));
  const bool foundation = feature("avx512f", has_zmm && bit(extended.ebx, 16));
  const bool dq = feature("avx512dq", has_zmm && bit(extended.ebx, 17));
  const bool bw = feature("avx512bw", has_zmm && bit(extended.ebx, 30));
  const bool vl = feature("avx512vl", has_zmm && bit(extended.ebx, 31));
  const bool popcnt512 = feature("avx512_vpopcntdq", has_zmm && bit(extended.ecx, 14));
  found.avx512_vnni = feature("avx512_vnni", has_zmm && bit(extended.ecx, 11));
  const bool bf16 = feature("avx512_bf16", has_zmm && bit(extended1.eax, 5));
  const bool may_tile = has_tiles && bit(extended.edx, 24) && request_tiles();
  const bool tile = feature("amx_tile", may_tile);
  const bool tile_int8 = feature(
      "amx_int8", may_tile && bit(extended.edx, 25) && tiles_multiply(TileDot::i8) && tiles_multiply(TileDot::u8i8));
  found.amx_bf16 = feature("amx_bf16", may_tile && bit(extended.edx, 22) && tiles_multiply(TileDot::bf16));

  const bool runs_avx2 = popcnt && fma && f16c && bmi1 && bmi2 && avx2;
  const bool runs_avx512 = runs_avx2 && foundation && dq && bw && vl && popcnt512;
  if (runs_avx512 && tile && tile_int8) found.isas.push_back(Isa::amx);
  if (runs_avx512 && bf16) found.isas.push_back(Isa::avx512bf16);
  if (runs_avx512) found.isas.push_back(Isa::avx512);
  if (runs_avx2) found.isas.push_back(Isa::avx2);
  found.isas.push_back(Isa::portable);
  return found;
}

#else

Cpu detect() {
  Cpu found;
#if defined(__aarch64__)
  found.name = "aarch64";
#else
  found.name = "unknown architecture";
#endif
  found.isas.push_back(Isa::portable);
  return found;
}

#endif

template <typename List>
std::string names(const List& isas) {
  std::string text;
  for (const Isa isa : isas) text += (text.empty() ? "" : ", ") + std::string(isa_name(isa));
  return text;
}

}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::amx:
      return "amx";
    case Isa::amx_emulated:
      return "amx_emulated";
    case Isa::avx512bf16:
      return "avx512bf16";
    case Isa::avx512:
      return "avx512";
    case Isa::avx2:
      return "avx2";
    case Isa::portable:
      break;
  }
  return "portable";
}

const Cpu& cpu() {
  static const Cpu found = detect();
  return found;
}

Isa isa_in_use() {
  const char* wanted = std::getenv("FTBNN_ISA");
  if (wanted == nullptr || *wanted == '\0') return cpu().isas.front();
  for (const Isa isa : cpu().isas) {
    if (std::strcmp(wanted, isa_name(isa)) == 0) return isa;
    if (isa == Isa::avx512 && std::strcmp(wanted, "amx_emulated") == 0) return Isa::amx_emulated;
  }
  for (const Isa isa : all_isas) {
    if (std::strcmp(wanted, isa_name(isa)) == 0) {
      throw std::invalid_argument("FTBNN_ISA=" + std::string(wanted) + ": this CPU has no " + wanted + "; it has " +
                                  names(cpu().isas));
    }
  }
  throw std::invalid_argument("FTBNN_ISA=" + std::string(wanted) + " is not an ISA; choose one of " + names(all_isas));
}

bool hides_tile_palette() {
#if defined(__x86_64__)
  return bit(cpuid(7).edx, 24) && cpuid(0x1d).eax == 0;
#else
  return false;
#endif
}

}  // namespace ftbnn
