// GMAC/s of the convolution's gradients in the shapes that networks train with, and the share of what the CPU could do
// at most: a loop of nothing but the kernels' multiplications, in the same run.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "training/conv_grad_timing.h"

using ftbnn::training::ConvShape;

int main(int argc, char** argv) {
  const char* only = argc > 1 ? argv[1] : nullptr;  // the name of an ISA, or "all"
  const int threads = argc > 2 ? std::atoi(argv[2]) : 1, rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  struct Row {
    int n, size, in, out, stride;
  };
  constexpr Row rows[] = {{128, 32, 64, 64, 1},  {128, 16, 128, 128, 1}, {128, 8, 256, 256, 1}, {128, 4, 512, 512, 1},
                          {128, 32, 64, 128, 2}, {16, 56, 64, 64, 1},    {16, 28, 128, 128, 1}, {16, 14, 256, 256, 1},
                          {16, 7, 512, 512, 1},  {128, 32, 16, 16, 1},   {128, 16, 32, 32, 1}};
  std::printf("%-24s %-12s %9s %9s %6s %9s %9s %6s %9s %9s %6s\n", "layer", "kernels", "input ms", "GMAC/s", "share",
              "weight ms", "GMAC/s", "share", "both ms", "GMAC/s", "share");
  for (const Row& row : rows) {
    const ConvShape shape = {row.n, row.size, row.size, row.in, row.out, 3, 3, row.stride, row.stride, 1, 1, 1};
    for (const std::string& name : ftbnn::grad_kernel_names()) {
      if (only != nullptr && std::strcmp(only, "all") != 0 && name != only) continue;
      const auto t = ftbnn::training::time_conv_grad(shape, *ftbnn::grad_kernels_named(name), threads, rounds);
      char layer[64];
      std::snprintf(layer, sizeof layer, "%d x %d->%d @ %d / %d", row.n, row.in, row.out, row.size, row.stride);
      const double gmacs = shape.macs() / 1e9;
      std::printf("%-24s %-12s %9.2f %9.1f %5.0f%% %9.2f %9.1f %5.0f%% %9.2f %9.1f %5.0f%%\n", layer, name.c_str(),
                  t.input_seconds * 1e3, gmacs / t.input_seconds, 100 * gmacs / t.input_seconds / t.roof_gmacs,
                  t.weight_seconds * 1e3, gmacs / t.weight_seconds, 100 * gmacs / t.weight_seconds / t.roof_gmacs,
                  t.both_seconds * 1e3, 2 * gmacs / t.both_seconds, 200 * gmacs / t.both_seconds / t.roof_gmacs);
      std::fflush(stdout);
    }
  }
  return 0;
}
