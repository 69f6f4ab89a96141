// The loops of stairs.h for compilers to make vectors of, over some numbers at a time that stay in L1. Included by each
// ISA's file inside its unnamed namespace, so that no two share a copy.

constexpr int RUN = 1024;  // numbers; gradients of a run are added up in single precision, LANES sums side by side

// What is past `count` is 0, so that every loop has RUN turns.
template <typename T>
void take(T (&run)[RUN], const T* from, int count) {
  __builtin_memcpy(run, from, static_cast<std::size_t>(count) * sizeof(T));
  __builtin_memset(run + count, 0, static_cast<std::size_t>(RUN - count) * sizeof(T));
}

// body(first, count) for every run.
template <typename Body>
void in_runs(std::size_t size, const Body& body) {
  for (std::size_t first = 0; first < size; first += RUN) {
    body(first, static_cast<int>(size - first < RUN ? size - first : RUN));
  }
}

void climb(const Stairs& stairs, const float* x, std::size_t size, float* out, std::uint8_t* steps) {
  in_runs(size, [&](std::size_t first, int count) {
    float values[RUN], heights[RUN];
    std::uint32_t places[RUN];
    std::uint8_t bytes[RUN];
    take(values, x + first, count);
    for (int i = 0; i < RUN; ++i) heights[i] = stairs.heights[0];
    for (int i = 0; i < RUN; ++i) places[i] = 0;
    for (int k = 0; k < stairs.count; ++k) {
      const float edge = stairs.edges[k], next = stairs.heights[k + 1];
      for (int i = 0; i < RUN; ++i) {
        heights[i] = values[i] > edge ? next : heights[i];
        places[i] += values[i] > edge ? 1 : 0;
      }
    }
    for (int i = 0; i < RUN; ++i) bytes[i] = static_cast<std::uint8_t>(places[i]);
    __builtin_memcpy(out + first, heights, static_cast<std::size_t>(count) * sizeof(float));
    __builtin_memcpy(steps + first, bytes, static_cast<std::size_t>(count));
  });
}

// The gradients that have this step.
double sum_of(std::uint32_t step, const float (&grads)[RUN], const std::uint32_t (&places)[RUN]) {
  typedef float Floats __attribute__((vector_size(LANES * sizeof(float))));
  typedef std::uint32_t Places __attribute__((vector_size(LANES * sizeof(std::uint32_t))));
  Floats lanes = {};
  for (int i = 0; i < RUN; i += LANES) {
    Floats grad;
    Places place;
    __builtin_memcpy(&grad, grads + i, sizeof grad);
    __builtin_memcpy(&place, places + i, sizeof place);
    lanes += place == step ? grad : Floats{};
  }
  double sum = 0;
  for (int lane = 0; lane < LANES; ++lane) sum += static_cast<double>(lanes[lane]);
  return sum;
}

void descend(const Stairs& stairs, const float* grad, const std::uint8_t* steps, std::size_t size, float* grad_x,
             double* sums) {
  in_runs(size, [&](std::size_t first, int count) {
    float grads[RUN], slopes[RUN];
    std::uint32_t places[RUN];
    std::uint8_t bytes[RUN];
    take(grads, grad + first, count);
    take(bytes, steps + first, count);
    for (int i = 0; i < RUN; ++i) places[i] = bytes[i];
    for (int i = 0; i < RUN; ++i) slopes[i] = stairs.slopes[0];
    for (int k = 0; k < stairs.count; ++k) {
      const auto step = static_cast<std::uint32_t>(k) + 1;
      const float slope = stairs.slopes[step];
      for (int i = 0; i < RUN; ++i) slopes[i] = places[i] == step ? slope : slopes[i];
    }
    for (int i = 0; i < RUN; ++i) slopes[i] *= grads[i];
    __builtin_memcpy(grad_x + first, slopes, static_cast<std::size_t>(count) * sizeof(float));
    for (int k = 0; sums != nullptr && k <= stairs.count; ++k) {
      sums[k] += sum_of(static_cast<std::uint32_t>(k), grads, places);
    }
  });
}
