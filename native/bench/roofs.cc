#include "bench/roofs.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "bench/roof__amx.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace ftbnn {

namespace {

#if defined(__x86_64__) || defined(__aarch64__)

constexpr int steps = 20000;

template <typename Work>
double gmacs(double macs, Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return 1e-9 * macs / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Every loop repeats one step on independent accumulators; the empty asm keeps the compiler from folding the steps.
#if defined(__x86_64__)

__attribute__((target("avx512f,avx512vpopcntdq"))) void popcount__avx512() {
  __m512i acc[16] = {}, word = _mm512_set1_epi64(steps);
  for (int k = 0; k < steps; ++k) {
#pragma GCC unroll 16
    for (__m512i& a : acc) {
      __asm__("" : "+v"(word));
      a = _mm512_add_epi64(a, _mm512_popcnt_epi64(_mm512_xor_si512(word, _mm512_set1_epi64(0x123456789))));
      __asm__ volatile("" : "+v"(a));
    }
  }
}

// Two words at a time: a full adder, xor with the weights inside, keeps the ones and leaves the twos to be counted.
__attribute__((target("avx512f,avx512vpopcntdq"))) void adders__avx512() {
  __m512i acc[8] = {}, ones[8] = {}, word = _mm512_set1_epi64(steps), other = _mm512_set1_epi64(0x123456789);
  for (int k = 0; k < steps; ++k) {
#pragma GCC unroll 8
    for (int n = 0; n < 8; ++n) {
      __asm__("" : "+v"(word), "+v"(other));
      const __m512i one = _mm512_ternarylogic_epi64(ones[n], word, other, 0x96);
      const __m512i both = _mm512_ternarylogic_epi64(one, other, word, 0x96);
      const __m512i twos = _mm512_ternarylogic_epi64(ones[n], one, both, 0x74);  // one ? !both : ones
      acc[n] = _mm512_add_epi64(acc[n], _mm512_popcnt_epi64(twos));
      ones[n] = both;
      __asm__ volatile("" : "+v"(acc[n]), "+v"(ones[n]));
    }
  }
}

// Three products are a digit of ones and one of twos, which two full adders add to what there is (adders.h); no number
// is made of the sums here.
__attribute__((target("avx512f"))) void threes__avx512() {
  __m512i acc[8] = {}, carries[8] = {}, digit = _mm512_set1_epi64(steps), other = _mm512_set1_epi64(0x123456789);
  for (int k = 0; k < steps; ++k) {
#pragma GCC unroll 8
    for (int n = 0; n < 8; ++n) {
      __asm__("" : "+v"(digit), "+v"(other));
      acc[n] = _mm512_ternarylogic_epi64(acc[n], digit, other, 0x96);
      carries[n] = _mm512_ternarylogic_epi64(carries[n], acc[n], other, 0xb2);
      __asm__ volatile("" : "+v"(acc[n]), "+v"(carries[n]));
    }
  }
}

// Dots by table, of six bits (64 entries) and of seven (128).
__attribute__((target("avx512f,avx512bw,avx512vbmi"))) void sextets__avx512() {
  __m512i acc[16] = {}, codes = _mm512_set1_epi8(3), counts = _mm512_set1_epi8(1);
  for (int k = 0; k < steps; ++k) {
#pragma GCC unroll 16
    for (__m512i& a : acc) {
      __asm__("" : "+v"(codes));
      a = _mm512_add_epi8(a, _mm512_maskz_permutexvar_epi8(~__mmask64{0}, codes, counts));
      __asm__ volatile("" : "+v"(a));
    }
  }
}

__attribute__((target("avx512f,avx512bw,avx512vbmi"))) void septets__avx512() {
  __m512i acc[16] = {}, codes = _mm512_set1_epi8(3), counts = _mm512_set1_epi8(1);
  for (int k = 0; k < steps; ++k) {
#pragma GCC unroll 16
    for (__m512i& a : acc) {
      __asm__("" : "+v"(codes));
      a = _mm512_add_epi8(a, _mm512_permutex2var_epi8(counts, codes, counts));
      __asm__ volatile("" : "+v"(a));
    }
  }
}

__attribute__((target("avx512f,avx512bw"))) void tables__avx512() {
  __m512i acc[16] = {}, codes = _mm512_set1_epi8(3), counts = _mm512_set1_epi8(1);
  for (int k = 0; k < steps; ++k) {
#pragma GCC unroll 16
    for (__m512i& a : acc) {
      __asm__("" : "+v"(codes));
      a = _mm512_add_epi8(a, _mm512_shuffle_epi8(counts, codes));
      __asm__ volatile("" : "+v"(a));
    }
  }
}

// Products of bytes, as int8 networks have them.
__attribute__((target("avx512f,avx512vnni"))) void bytes__avx512() {
  __m512i acc[16] = {}, codes = _mm512_set1_epi8(1), weights = _mm512_set1_epi8(-1);
  for (int k = 0; k < steps; ++k) {
#pragma GCC unroll 16
    for (__m512i& a : acc) {
      a = _mm512_dpbusd_epi32(a, codes, weights);
      __asm__ volatile("" : "+v"(a));
    }
  }
}

__attribute__((target("avx512f"))) void fma__avx512() {
  __m512 acc[16] = {}, value = _mm512_set1_ps(0.5F);
  for (int k = 0; k < steps; ++k) {
#pragma GCC unroll 16
    for (__m512& a : acc) {
      a = _mm512_fmadd_ps(value, value, a);
      __asm__ volatile("" : "+v"(a));
    }
  }
}

// Dots of nibbles by table; the bytes are summed up now and then, which is not counted here.
__attribute__((target("avx2"))) void tables__avx2() {
  __m256i acc[12] = {}, codes = _mm256_set1_epi8(3), counts = _mm256_set1_epi8(1);
  for (int k = 0; k < steps; ++k) {
#pragma GCC unroll 12
    for (__m256i& a : acc) {
      __asm__("" : "+x"(codes));
      a = _mm256_add_epi8(a, _mm256_shuffle_epi8(counts, codes));
      __asm__ volatile("" : "+x"(a));
    }
  }
}

__attribute__((target("avx2,fma"))) void fma__avx2() {
  __m256 acc[12] = {}, value = _mm256_set1_ps(0.5F);
  for (int k = 0; k < steps; ++k) {
#pragma GCC unroll 12
    for (__m256& a : acc) {
      a = _mm256_fmadd_ps(value, value, a);
      __asm__ volatile("" : "+x"(a));
    }
  }
}

constexpr Features TILES = AVX512 | feature::amx_tile | feature::amx_int8;
constexpr Features POPCOUNT = AVX512 | feature::avx512_vpopcntdq, VBMI = AVX512 | feature::avx512_vbmi;

#else

// The bytes are summed up now and then, which is not counted here.
void popcount__neon() {
  uint8x16_t acc[16] = {}, word = vdupq_n_u8(3), other = vdupq_n_u8(5);
  for (int k = 0; k < steps; ++k) {
#pragma GCC unroll 16
    for (uint8x16_t& a : acc) {
      __asm__("" : "+w"(word));
      a = vaddq_u8(a, vcntq_u8(veorq_u8(word, other)));
      __asm__ volatile("" : "+w"(a));
    }
  }
}

void fma__neon() {
  float32x4_t acc[16] = {}, value = vdupq_n_f32(0.5F);
  for (int k = 0; k < steps; ++k) {
#pragma GCC unroll 16
    for (float32x4_t& a : acc) {
      a = vfmaq_f32(a, value, value);
      __asm__ volatile("" : "+w"(a));
    }
  }
}

#endif

#endif

}  // namespace

const Table<Roof>& binary_roofs() {
  static const Table<Roof> table = {
#if defined(__x86_64__)
      {"amx", TILES, {"tileloadd, tdpbssd", amx_int8_roof_gmacs}},
      {"avx512", POPCOUNT, {"xor, vpopcntq, add", [] { return gmacs(16.0 * 512 * steps, popcount__avx512); }}},
      {"avx512 adders",
       POPCOUNT,
       {"3 vpternlog, vpopcntq, add", [] { return gmacs(8.0 * 1024 * steps, adders__avx512); }}},
      {"avx512 sextets", VBMI, {"vpermb, add", [] { return gmacs(16.0 * 384 * steps, sextets__avx512); }}},
      {"avx512 septets", VBMI, {"vpermi2b, add", [] { return gmacs(16.0 * 448 * steps, septets__avx512); }}},
      {"avx512 threes", AVX512, {"vpternlog", [] { return gmacs(8.0 * 768 * steps, threes__avx512); }}},
      {"avx512 tables", AVX512, {"vpshufb, add", [] { return gmacs(16.0 * 256 * steps, tables__avx512); }}},
      {"avx512 bytes",
       AVX512 | feature::avx512_vnni,
       {"vpdpbusd", [] { return gmacs(16.0 * 64 * steps, bytes__avx512); }}},
      {"avx2", AVX2, {"vpshufb, add", [] { return gmacs(12.0 * 128 * steps, tables__avx2); }}},
#elif defined(__aarch64__)
      {"neon", NEON, {"eor, cnt, add", [] { return gmacs(16.0 * 128 * steps, popcount__neon); }}},
#endif
      {"none", PORTABLE, {"", nullptr}},
  };
  return table;
}

const Table<Roof>& float_roofs() {
  static const Table<Roof> table = {
#if defined(__x86_64__)
      {"avx512", AVX512, {"fma", [] { return gmacs(16.0 * 16 * steps, fma__avx512); }}},
      {"avx2", AVX2, {"fma", [] { return gmacs(12.0 * 8 * steps, fma__avx2); }}},
#elif defined(__aarch64__)
      {"neon", NEON, {"fmla", [] { return gmacs(16.0 * 4 * steps, fma__neon); }}},
#endif
      {"none", PORTABLE, {"", nullptr}},
  };
  return table;
}

double best_of_threads(int threads, double seconds, const std::function<double()>& gmacs) {
  std::vector<double> best(static_cast<std::size_t>(threads));
  const auto measure = [&](double& found) {
    const auto start = std::chrono::steady_clock::now();
    do {
      found = std::max(found, gmacs());
    } while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds);
  };
  std::vector<std::thread> others;
  for (int k = 1; k < threads; ++k) others.emplace_back(measure, std::ref(best[static_cast<std::size_t>(k)]));
  measure(best[0]);
  for (std::thread& other : others) other.join();
  return std::accumulate(best.begin(), best.end(), 0.0);
}

}  // namespace ftbnn
