// Both gradients are products of a left operand made from gy and a right one of -1, 0 and +1.
#include "training/conv_grad.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

#include "training/bands.h"
#include "training/input_gradient.h"
#include "training/weight_gradient.h"

namespace ftbnn::training {

namespace {

thread_local Scratch scratch;  // of a caller

// Images of a slice: whole dwords of them, and such that a row needs no rounding up if that takes few more.
int slice_of(const BatchShape& s, const GradKernels& kernels) {
  const int step = kernels.packed;
  const int most = std::max(1, std::min(BLOCK_ROWS, SLICE_POSITIONS / (s.oh * s.ow)));
  const int least = static_cast<int>(round_up(static_cast<std::size_t>(divide_up(s.n, divide_up(s.n, most))), step));
  for (int slice = least; slice <= std::min({s.n, 2 * least, BLOCK_ROWS}); slice += step) {
    if (slice * s.ow % kernels.depth_step == 0) return slice;
  }
  return least;
}

// Tasks 0 to count - 1 of each of a list, as they are numbered: those of one after those of another.
template <typename List, typename Count, typename Body>
void run_all(Team& team, const List& list, const Count& count, const Body& body) {
  int tasks = 0;
  for (const auto& one : list) tasks += count(*one);
  team.run(tasks, [&](int task) {
    for (const auto& one : list) {
      if (task < count(*one)) return body(*one, task);
      task -= count(*one);
    }
  });
}

// Task 0 of each, task 1 of each, and so on: groups write side by side into the same lines of memory.
template <typename List>
int tasks_in_turns(const List& list) {
  int most = 0;
  for (const auto& one : list) most = std::max(most, one->tasks());
  return most * static_cast<int>(list.size());
}

template <typename List, typename Body>
void run_in_turn(const List& list, int task, const Body& body) {
  const int count = static_cast<int>(list.size());
  const auto& one = list[static_cast<std::size_t>(task % count)];
  if (task / count < one->tasks()) body(*one, task / count);
}

}  // namespace

void gradients(const BatchShape& s, const GradSource& gy, const float* weight, const float* tail,
               const std::optional<ToInput>& to_input, const std::optional<ToWeight>& to_weight,
               const GradKernels& kernels, Team& team) {
  if (s.taps() > GRAD_TAPS) throw std::invalid_argument("a kernel of this size has no native gradients");
  scratch.restart();
  const int size = slice_of(s, kernels);
  const std::vector<GradPart> parts =
      grad_parts(s, weight, tail, to_weight ? to_weight->gw : nullptr, to_weight ? to_weight->gtail : nullptr);
  std::vector<std::unique_ptr<InputGradient>> inputs;
  std::vector<std::unique_ptr<WeightGradient>> weights;
  if (to_input) inputs = input_gradients(s, parts, *to_input, size, kernels, team.threads(), scratch);
  if (to_weight) {
    weights = weight_gradients(s, parts, to_weight->codes, to_weight->zero_one, size, kernels, team.threads(), scratch);
  }
  run_all(
      team, inputs, [](const InputGradient& one) { return one.panels(); },
      [](const InputGradient& one, int panel) { one.pack_weights(panel); });

  int rounds = 0;
  for (const auto& one : weights) rounds = std::max(rounds, one->rounds());
  Rounding rounding(s);
  for (int first = 0; first < s.n; first += size) {
    Slice slice = {first, std::min(size, s.n - first), nullptr, rounding};
    const MadeGradient made = gy(first, slice.images);
    slice.gy = made.gy;
    if (kernels.find_largest != nullptr) rounding.set(made.largest, slice.images);
    team.run(std::max(s.oh, s.h), [&](int y) {
      for (const auto& one : inputs) one->pack(slice, y);
      for (const auto& one : weights) one->pack(slice, y);
    });
    // The tasks of both gradients follow each other without a stop: the small ones of the weights fill up the threads.
    const int of_inputs = tasks_in_turns(inputs);
    for (int round = 0; round < std::max(1, rounds); ++round) {
      const int before = round == 0 ? of_inputs : 0;
      team.run(before + tasks_in_turns(weights), [&](int task) {
        if (task < before) return run_in_turn(inputs, task, [&](InputGradient& one, int own) { one.run(slice, own); });
        run_in_turn(weights, task - before, [&](WeightGradient& one, int own) {
          if (round < one.rounds()) one.run(slice, round, own);
        });
      });
    }
  }
  run_all(
      team, weights, [](const WeightGradient& one) { return one.finishes(); },
      [&](const WeightGradient& one, int task) { one.finish(to_weight->bound, task); });
}

GradSource whole(const BatchShape& s, const float* gy, const GradKernels& kernels, Team& team) {
  const std::size_t positions = s.positions(), channels = static_cast<std::size_t>(s.out);
  return [&, gy, positions, channels, largest = std::vector<std::uint32_t>()](int first, int count) mutable {
    const float* made = gy + first * positions * channels;
    if (kernels.find_largest == nullptr) return MadeGradient{made, nullptr};
    Bands(count, positions).run(channels, &largest, team, [&](std::size_t at, std::size_t size, std::uint32_t* found) {
      kernels.find_largest(made + at * channels, size, static_cast<int>(channels), found);
    });
    return MadeGradient{made, largest.data()};
  };
}

}  // namespace ftbnn::training
