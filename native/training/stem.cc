#include "training/stem.h"

namespace ftbnn::training {

void forward(const Stem& stem, const StemTensors& t, Team& team) {
  NormSource source;
  source.make = [&](Team& own, const auto& made) { forward(stem.conv, t.images, t.weight, t.x, own, made); };
  forward(stem.norm, t.norm, team, &source);
}

void backward(const Stem& stem, const StemTensors& t, Team& team) {
  NormSource source;
  source.take = [&](Team& own, const auto& grad) { backward(stem.conv, t.images, grad, t.weight_grad, own); };
  backward(stem.norm, t.norm, team, &source);
}

}  // namespace ftbnn::training
