// GMAC/s of whole layers on one thread, per ISA, beside the roof of a loop that lives in registers.
//
// Layers run as the engine runs them: panels of output channels outermost, rows inside, with the whole epilogue of a
// binary block (shortcut, FPReLU, real stream, codes) or of a stem (ReLU). Clocks wander and neighbours make noise, so
// roofs and layers take turns and each shows its best time.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/table.h"

namespace {

using ftbnn::BConvRow;
using ftbnn::ConvRow;
using ftbnn::Epilogue;
using ftbnn::Isa;
using ftbnn::Kernels;
using ftbnn::PANEL;

// A vector of zeros that starts on a cache line, as weight panels must.
template <typename T>
class Lines {
 public:
  explicit Lines(std::size_t count) : storage_(count + 64 / sizeof(T)) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    data_ = storage_.data() + (64 - address % 64) % 64 / sizeof(T);
  }
  T* data() { return data_; }
  T* begin() { return data_; }
  T* end() { return storage_.data() + storage_.size(); }

 private:
  std::vector<T> storage_;
  T* data_;
};

struct Shape {
  const char* name;
  bool binary;
  int channels_in, channels_out, kernel, stride;
  int size;  // output rows and columns

  double macs() const { return 1.0 * channels_in * channels_out * kernel * kernel * size * size; }
};

constexpr Shape shapes[] = {
    {"binary 3x3   64 @ 56", true, 64, 64, 3, 1, 56},       {"binary 3x3  128 @ 28", true, 128, 128, 3, 1, 28},
    {"binary 3x3  256 @ 14", true, 256, 256, 3, 1, 14},     {"binary 3x3  512 @  7", true, 512, 512, 3, 1, 7},
    {"float 7x7/2 3 -> 64 @ 112", false, 3, 64, 7, 2, 112}, {"float 1x1 64 -> 128 @ 28", false, 64, 128, 1, 1, 28},
};

class Layer {
 public:
  explicit Layer(const Shape& shape)
      : shape_(shape),
        side_((shape.size - 1) * shape.stride + shape.kernel),
        unit_(shape.binary ? (shape.channels_in + 63) / 64 : shape.channels_in),
        panel_(static_cast<std::size_t>(shape.kernel) * shape.kernel * unit_ * PANEL),
        floats_(shape.binary ? 0 : side_ * side_ * unit_),
        float_weights_(shape.binary ? 0 : panels() * panel_),
        words_(shape.binary ? side_ * side_ * unit_ : 0),
        word_weights_(shape.binary ? panels() * panel_ : 0),
        base_(PANEL),
        border_(shape.size),
        slopes_(PANEL, 0.25F),
        scale_(PANEL, 0.5F),
        shortcut_(positions() * shape.channels_out),
        out_(positions() * shape.channels_out),
        codes_(positions() * panels()) {
    std::mt19937_64 random(1);
    for (std::uint64_t& word : words_) word = random();
    for (std::uint64_t& word : word_weights_) word = random();
    for (float& value : floats_) value = static_cast<float>(random() % 256) / 256;
    for (float& value : float_weights_) value = static_cast<float>(random() % 256) / 256 - 0.5F;
  }

  void run(const Kernels& kernels) {
    for (std::size_t panel = 0; panel < panels(); ++panel) {
      for (int y = 0; y < shape_.size; ++y) {
        const std::size_t line = side_ * unit_;
        Epilogue end = epilogue(panel, y);
        if (shape_.binary) {
          const BConvRow row = {words_.data() + y * shape_.stride * line,
                                line,
                                word_weights_.data() + panel * panel_,
                                unit_,
                                shape_.kernel,
                                shape_.kernel,
                                shape_.stride,
                                shape_.size,
                                PANEL,
                                false,
                                base_.data(),
                                border_.data(),
                                nullptr,
                                end};
          kernels.bconv_row(row);
        } else {
          end.shortcut = nullptr;
          end.codes = nullptr;
          end.act = ftbnn::Act::relu;
          const ConvRow row = {floats_.data() + y * shape_.stride * line,
                               line,
                               float_weights_.data() + panel * panel_,
                               unit_,
                               shape_.kernel,
                               shape_.kernel,
                               shape_.stride,
                               shape_.size,
                               PANEL,
                               end};
          kernels.conv_row(row);
        }
      }
    }
  }

 private:
  std::size_t panels() const { return shape_.channels_out / PANEL; }
  std::size_t positions() const { return static_cast<std::size_t>(shape_.size) * shape_.size; }

  Epilogue epilogue(std::size_t panel, int y) {
    const std::size_t stride = shape_.channels_out, at = y * shape_.size;
    return {scale_.data(),
            scale_.data(),
            slopes_.data(),
            slopes_.data(),
            shortcut_.data() + at * stride + panel * PANEL,
            stride,
            out_.data() + at * stride + panel * PANEL,
            stride,
            codes_.data() + at * panels() + panel,
            panels(),
            ftbnn::Act::fprelu};
  }

  const Shape& shape_;
  std::size_t side_;
  int unit_;  // words or floats of one position
  std::size_t panel_;
  Lines<float> floats_, float_weights_;
  Lines<std::uint64_t> words_, word_weights_;
  std::vector<std::int32_t> base_;
  std::vector<std::uint8_t> border_;
  std::vector<float> slopes_, scale_;
  Lines<float> shortcut_, out_;
  std::vector<std::uint32_t> codes_;
};

// Each roof repeats one step on independent accumulators `steps` times and returns the multiply-adds it did.
using Roof = double (*)(int steps);

#if defined(__x86_64__)

__attribute__((target("avx512f,avx512vpopcntdq"))) double bits__avx512(int steps) {
  __m512i acc[16] = {}, word = _mm512_set1_epi64(steps);
  for (int k = 0; k < steps; ++k) {
#pragma GCC unroll 16
    for (__m512i& a : acc) {
      __asm__("" : "+v"(word));
      a = _mm512_add_epi64(a, _mm512_popcnt_epi64(_mm512_xor_si512(word, _mm512_set1_epi64(0x123456789))));
      __asm__ volatile("" : "+v"(a));
    }
  }
  return 16.0 * 512 * steps;
}

__attribute__((target("avx512f"))) double floats__avx512(int steps) {
  __m512 acc[16] = {}, value = _mm512_set1_ps(0.5F);
  for (int k = 0; k < steps; ++k) {
#pragma GCC unroll 16
    for (__m512& a : acc) {
      a = _mm512_fmadd_ps(value, value, a);
      __asm__ volatile("" : "+v"(a));
    }
  }
  return 16.0 * 16 * steps;
}

// Nibbles by table; the bytes are summed up now and then, which is not counted here.
__attribute__((target("avx2"))) double bits__avx2(int steps) {
  __m256i acc[8] = {}, word = _mm256_set1_epi64x(steps);
  const __m256i counts =
      _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
  const __m256i low = _mm256_set1_epi8(15);
  for (int k = 0; k < steps; ++k) {
#pragma GCC unroll 8
    for (__m256i& a : acc) {
      __asm__("" : "+x"(word));
      const __m256i match = _mm256_xor_si256(word, low);
      const __m256i first = _mm256_shuffle_epi8(counts, _mm256_and_si256(match, low));
      const __m256i second = _mm256_shuffle_epi8(counts, _mm256_and_si256(_mm256_srli_epi64(match, 4), low));
      a = _mm256_add_epi8(a, _mm256_add_epi8(first, second));
      __asm__ volatile("" : "+x"(a));
    }
  }
  return 8.0 * 256 * steps;
}

__attribute__((target("avx2,fma"))) double floats__avx2(int steps) {
  __m256 acc[12] = {}, value = _mm256_set1_ps(0.5F);
  for (int k = 0; k < steps; ++k) {
#pragma GCC unroll 12
    for (__m256& a : acc) {
      a = _mm256_fmadd_ps(value, value, a);
      __asm__ volatile("" : "+x"(a));
    }
  }
  return 12.0 * 8 * steps;
}

#endif

Roof roof_of(Isa isa, bool binary) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return binary ? bits__avx512 : floats__avx512;
  if (isa == Isa::avx2) return binary ? bits__avx2 : floats__avx2;
#endif
  static_cast<void>(isa), static_cast<void>(binary);
  return nullptr;
}

template <typename Work>
double seconds(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

// An ISA's name as the argument measures that one alone.
int main(int argc, char** argv) {
  constexpr int rounds = 100, roof_steps = 20000;
  std::printf("%s, one thread\n%-26s %-9s %10s %10s %10s %6s\n", ftbnn::cpu().name.c_str(), "layer", "isa", "ms",
              "GMAC/s", "roof", "share");
  for (const Shape& shape : shapes) {
    Layer layer(shape);
    for (const Isa isa : ftbnn::cpu().isas) {
      const Kernels& kernels = ftbnn::kernels_for(isa);
      if (kernels.isa != isa || (argc > 1 && std::strcmp(argv[1], ftbnn::isa_name(isa)) != 0)) continue;
      const Roof roof = roof_of(isa, shape.binary);
      double best = 1e9, roof_rate = 0;
      for (int round = 0; round < rounds; ++round) {
        best = std::min(best, seconds([&] { layer.run(kernels); }));
        if (roof == nullptr) continue;
        double done = 0;
        const double time = seconds([&] { done = roof(roof_steps); });
        roof_rate = std::max(roof_rate, done / time);
      }
      const double rate = shape.macs() / best;
      std::printf("%-26s %-9s %10.3f %10.1f", shape.name, ftbnn::isa_name(isa), best * 1e3, rate / 1e9);
      if (roof != nullptr) std::printf(" %10.1f %5.0f%%", roof_rate / 1e9, 100 * rate / roof_rate);
      std::printf("\n");
    }
  }
  return 0;
}
