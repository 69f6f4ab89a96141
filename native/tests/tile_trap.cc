#include "tests/tile_trap.h"

#include "base/cpu.h"
#include "tests/emulated/tiles.h"

#if defined(__x86_64__) && defined(__linux__)
#include <signal.h>
#include <ucontext.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#endif

namespace ftbnn {

namespace {

bool has_tiles() { return (cpu_features() & feature::amx_int8) != 0; }

}  // namespace

#if defined(__x86_64__) && defined(__linux__)

namespace {

enum Prefix { NONE, P66, PF3, PF2 };

std::uint64_t value_of(const ucontext_t& context, int number) {
  static constexpr int order[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                    REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return static_cast<std::uint64_t>(context.uc_mcontext.gregs[order[number]]);
}

// A VEX instruction of the map 0F 38 with its operands (Intel SDM, volume 2, chapter 2.3).
struct Instruction {
  explicit Instruction(const ucontext_t& context) {
    const auto* code = reinterpret_cast<const std::uint8_t*>(context.uc_mcontext.gregs[REG_RIP]);
    if (code[0] != 0xc4 || (code[1] & 0x1f) != 2 || (code[2] & 0x84) != 0) return;
    const int high_index = ~code[1] >> 6 & 1, high_base = ~code[1] >> 5 & 1;
    prefix = code[2] & 3;
    third = ~code[2] >> 3 & 15;
    opcode = code[3];
    reg = (code[4] >> 3 & 7) | (~code[1] >> 7 & 1) << 3;
    rm = (code[4] & 7) | high_base << 3;
    const int mod = code[4] >> 6;
    const std::uint8_t* next = code + 5;
    is_memory = mod != 3;
    if (is_memory) {
      bool has_base = true, is_relative = false;
      int base = rm;
      if ((rm & 7) == 4) {
        base = (*next & 7) | high_base << 3;
        const int index = (*next >> 3 & 7) | high_index << 3;
        if (index != 4) stride = value_of(context, index) << (*next >> 6);
        has_base = mod != 0 || (base & 7) != 5;
        has_sib = true;
        ++next;
      } else if (mod == 0 && (rm & 7) == 5) {
        has_base = false;
        is_relative = true;
      }
      std::int64_t offset = 0;
      if (mod == 1) {
        offset = static_cast<std::int8_t>(*next++);
      } else if (mod == 2 || !has_base) {
        std::int32_t wide;
        std::memcpy(&wide, next, sizeof wide);
        offset = wide;
        next += sizeof wide;
      }
      address = static_cast<std::uint64_t>(offset);
      if (has_base) address += value_of(context, base);
      if (is_relative) address += reinterpret_cast<std::uint64_t>(next);
    }
    size = next - code;
  }

  void* memory() const { return reinterpret_cast<void*>(address); }

  // True if it is a tile instruction; the tables are those of the SDM's chapter on AMX.
  bool execute() const {
    namespace tiles = emulated_tiles;
    if (size == 0 || reg > 7 || (!is_memory && rm > 7)) return false;
    if (opcode == 0x49 && prefix == NONE && is_memory && reg == 0) {  // LDTILECFG
      TileConfig config;
      std::memcpy(&config, memory(), sizeof config);
      tiles::configure(config);
    } else if (opcode == 0x49 && prefix == NONE && !is_memory && reg == 0 && rm == 0) {  // TILERELEASE
      tiles::release();
    } else if (opcode == 0x49 && prefix == PF2 && !is_memory && rm == 0) {  // TILEZERO
      tiles::zero(reg);
    } else if (opcode == 0x4b && prefix == PF2 && has_sib) {  // TILELOADD
      tiles::load(reg, memory(), stride);
    } else if (opcode == 0x4b && prefix == PF3 && has_sib) {  // TILESTORED
      tiles::store(reg, memory(), stride);
    } else if (opcode == 0x5e && prefix == PF2 && !is_memory && third < 8) {  // TDPBSSD
      tiles::dot_i8(reg, rm, third);
    } else if (opcode == 0x5e && prefix == P66 && !is_memory && third < 8) {  // TDPBUSD
      tiles::dot_u8i8(reg, rm, third);
    } else if (opcode == 0x5c && prefix == PF3 && !is_memory && third < 8) {  // TDPBF16PS
      tiles::dot_bf16(reg, rm, third);
    } else {
      return false;
    }
    return true;
  }

  int prefix = 0, third = 0, opcode = 0, reg = 0, rm = 0;
  bool is_memory = false, has_sib = false;
  std::uint64_t address = 0, stride = 0;
  std::ptrdiff_t size = 0;
};

void on_fault(int, siginfo_t*, void* raw) {
  auto& context = *static_cast<ucontext_t*>(raw);
  const Instruction instruction(context);
  bool is_done = false;
  try {
    is_done = instruction.execute();
  } catch (const std::exception&) {
  }
  if (!is_done) std::abort();  // what the CPU would refuse as well
  context.uc_mcontext.gregs[REG_RIP] += instruction.size;
}

}  // namespace

bool trap_tiles() {
  if (has_tiles()) return true;
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  return sigaction(SIGILL, &action, nullptr) == 0;
}

#else

bool trap_tiles() { return has_tiles(); }

#endif

}  // namespace ftbnn
