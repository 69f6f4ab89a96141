#include "training/conv_grad_timing.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

namespace ftbnn::training {

namespace {

template <typename Work>
double seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

ConvGradTiming time_conv_grad(const BatchShape& s, const GradKernels& kernels, int threads, int rounds) {
  constexpr int roof_steps = 100000;
  const std::size_t positions = static_cast<std::size_t>(s.n) * s.h * s.w, words = (s.in + 63) / 64;
  const std::size_t weights = static_cast<std::size_t>(s.out) * s.in * s.kh * s.kw;  // enough for any groups
  std::mt19937_64 lot(0);
  std::vector<float> gy(static_cast<std::size_t>(s.n) * s.oh * s.ow * s.out), gx(positions * s.in);
  std::vector<float> weight(weights), grad(weights);
  std::vector<std::uint64_t> bits(positions * words);
  const auto random = [&] { return static_cast<float>(static_cast<double>(lot() >> 11) * 0x1p-52 - 1); };
  std::generate(gy.begin(), gy.end(), random);
  std::generate(weight.begin(), weight.end(), random);
  std::generate(bits.begin(), bits.end(), lot);

  Team team(threads);
  ConvGradTiming best = {1e9, 1e9, 1e9, 0};
  for (int round = 0; round < rounds; ++round) {
    best.input_seconds =
        std::min(best.input_seconds, seconds([&] {
                   grad_input(s, gy.data(), weight.data(), weight.data(), bits.data(), gx.data(), kernels, team);
                 }));
    best.weight_seconds = std::min(best.weight_seconds, seconds([&] {
                                     grad_weight(s, gy.data(), bits.data(), false, weight.data(), weight.data(), 1.0F,
                                                 grad.data(), grad.data(), kernels, team);
                                   }));
    best.both_seconds =
        std::min(best.both_seconds, seconds([&] {
                   gradients(s, whole(s, gy.data(), kernels, team), weight.data(), weight.data(),
                             ToInput{bits.data(), gx.data(), true},
                             ToWeight{bits.data(), false, 1.0F, grad.data(), grad.data()}, kernels, team);
                 }));
    if (kernels.roof == nullptr) continue;
    std::vector<double> macs(static_cast<std::size_t>(threads));
    const double time = seconds([&] { team.run(threads, [&](int task) { macs[task] = kernels.roof(roof_steps); }); });
    double sum = 0;
    for (const double count : macs) sum += count;
    best.roof_gmacs = std::max(best.roof_gmacs, sum / time / 1e9);
  }
  return best;
}

}  // namespace ftbnn::training
