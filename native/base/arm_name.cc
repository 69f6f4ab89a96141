#if defined(__aarch64__)

#include "base/arm_name.h"

#include <cstdint>
#include <cstdio>
#include <set>

#if defined(__linux__)
#include <sys/auxv.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace ftbnn {

#if defined(__linux__)

namespace {

struct Part {
  unsigned number;
  const char* name;
};

constexpr unsigned ARM = 0x41;  // of ARM's own cores:
constexpr Part parts[] = {
    {0xd03, "Cortex-A53"},  {0xd04, "Cortex-A35"},  {0xd05, "Cortex-A55"},  {0xd07, "Cortex-A57"},
    {0xd08, "Cortex-A72"},  {0xd09, "Cortex-A73"},  {0xd0a, "Cortex-A75"},  {0xd0b, "Cortex-A76"},
    {0xd0c, "Neoverse-N1"}, {0xd0d, "Cortex-A77"},  {0xd40, "Neoverse-V1"}, {0xd41, "Cortex-A78"},
    {0xd44, "Cortex-X1"},   {0xd46, "Cortex-A510"}, {0xd47, "Cortex-A710"}, {0xd48, "Cortex-X2"},
    {0xd49, "Neoverse-N2"}, {0xd4d, "Cortex-A715"}, {0xd4e, "Cortex-X3"},   {0xd4f, "Neoverse-V2"},
    {0xd80, "Cortex-A520"}, {0xd81, "Cortex-A720"}, {0xd82, "Cortex-X4"},
};

// By MIDR_EL1: bits 31 to 24 are who made it, bits 15 to 4 which part it is; others are revisions.
std::string kind(std::uint64_t midr) {
  const auto implementer = static_cast<unsigned>(midr >> 24 & 0xff), number = static_cast<unsigned>(midr >> 4 & 0xfff);
  std::string name = "aarch64";
  for (const Part& part : parts) {
    if (implementer == ARM && part.number == number) name = part.name;
  }
  char text[48];
  std::snprintf(text, sizeof text, " (implementer 0x%02x, part 0x%03x)", implementer, number);
  return name + text;
}

// Of every core: a phone has two or three kinds.
std::set<std::string> kinds() {
  std::set<std::string> found;
  for (int core = 0;; ++core) {
    const std::string path = "/sys/devices/system/cpu/cpu" + std::to_string(core) + "/regs/identification/midr_el1";
    std::FILE* file = std::fopen(path.c_str(), "r");
    if (file == nullptr) break;
    unsigned long long midr = 0;
    if (std::fscanf(file, "%llx", &midr) == 1) found.insert(kind(midr));
    std::fclose(file);
  }
  constexpr unsigned long cpuid = 1UL << 11;  // HWCAP_CPUID: the system lets programs read such registers
  if (found.empty() && (getauxval(AT_HWCAP) & cpuid) != 0) {
    std::uint64_t midr = 0;
    __asm__("mrs %0, MIDR_EL1" : "=r"(midr));
    found.insert(kind(midr));
  }
  return found;
}

}  // namespace

std::string arm_name() {
  std::string text;
  for (const std::string& name : kinds()) text += (text.empty() ? "" : " + ") + name;
  return text.empty() ? "aarch64" : text;
}

#elif defined(__APPLE__)

std::string arm_name() {
  char text[64] = {};
  std::size_t size = sizeof text - 1;
  return sysctlbyname("machdep.cpu.brand_string", text, &size, nullptr, 0) == 0 ? text : "aarch64";
}

#else

std::string arm_name() { return "aarch64"; }

#endif

}  // namespace ftbnn

#endif
