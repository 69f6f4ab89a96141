#include "base/cores.h"

#include <algorithm>
#include <cstdio>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace ftbnn {

namespace {

int affinity() {
#if defined(__linux__)
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
#endif
  return static_cast<int>(std::thread::hardware_concurrency());
}

// CPUs that the control group grants, rounded up; many where it does not limit them.
int quota() {
  constexpr int many = 1 << 16;
#if defined(__linux__)
  std::FILE* file = std::fopen("/sys/fs/cgroup/cpu.max", "r");
  if (file == nullptr) return many;
  long long granted = 0, period = 0;
  const int read = std::fscanf(file, "%lld %lld", &granted, &period);  // nothing of "max"
  std::fclose(file);
  if (read == 2 && granted > 0 && period > 0)
    return static_cast<int>(std::min<long long>(many, (granted + period - 1) / period));
#endif
  return many;
}

}  // namespace

int usable_cores() { return std::max(1, std::min(affinity(), quota())); }

}  // namespace ftbnn
