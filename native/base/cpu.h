// What this CPU can run: a set of features, asked once, and which of them kernels may use.
//
// A kernel may run only if the CPU has its instructions *and* the operating system saves the registers they use, so
// both are asked: CPUID for the first, XCR0 (and for AMX a permission from the kernel) for the second. On ARM the
// operating system answers for both.
//
// An ISA is a name for what kernels may use at most: FTBNN_ISA=avx2 takes all features away that avx2 does not allow.
// Files of kernels include this, so there is nothing here that is compiled: constants and declarations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ftbnn {

using Features = std::uint64_t;  // a set, one bit each

namespace feature {
constexpr Features popcnt = 1U << 0, fma = 1U << 1, f16c = 1U << 2, bmi1 = 1U << 3, bmi2 = 1U << 4, avx2 = 1U << 5,
                   avx512f = 1U << 6, avx512dq = 1U << 7, avx512bw = 1U << 8, avx512vl = 1U << 9,
                   avx512_vnni = 1U << 10, avx512_vpopcntdq = 1U << 11, avx512_bitalg = 1U << 12,
                   avx512_bf16 = 1U << 13, avx_vnni = 1U << 14, amx_tile = 1U << 15, amx_int8 = 1U << 16,
                   amx_bf16 = 1U << 17, avx512_vbmi = 1U << 20, asimd = 1U << 21, asimddp = 1U << 22;
constexpr Features simd128 = 1U << 31, relaxed_simd = 1U << 30;  // of WebAssembly
constexpr Features emulated_tiles = 1U << 18;  // for tests: tile registers in plain C++; no CPU has it
constexpr Features fast_permutes = 1U << 23;  // vpermw of 64 bytes is one operation; asked by vendor: measured on AMD's
constexpr Features other_rounding = 1U << 19;  // no feature but a leave: float sums in another order than the plain one
}  // namespace feature

// What the files of an ISA are compiled for (CMakeLists.txt has the flags).
constexpr Features PORTABLE = 0;
constexpr Features AVX2 =
    feature::popcnt | feature::fma | feature::f16c | feature::bmi1 | feature::bmi2 | feature::avx2;
constexpr Features AVX512 = AVX2 | feature::avx512f | feature::avx512dq | feature::avx512bw | feature::avx512vl;
constexpr Features NEON = feature::asimd;

std::string cpu_name();                                     // brand, family and model, or kinds of cores
Features cpu_features();                                    // that the CPU and the operating system both offer
std::vector<std::string> feature_names(Features features);  // as /proc/cpuinfo spells them

// ISAs that may run here, best first; portable is always last.
std::vector<std::string> isas();

// The ISA in use: the best one, or the one that FTBNN_ISA names; and the features that kernels may use by it.
// Throw std::invalid_argument, with the valid names in its text, if that one is unknown or this CPU lacks it.
std::string isa_in_use();
Features usable_features();
Features usable_features(const std::string& isa);  // "" is the one in use

// For tests: from now on the CPU counts as having these too.
void pretend(Features features);

}  // namespace ftbnn
