#include "training/grad_operands.h"

#include <cmath>
#include <cstring>

namespace ftbnn::training {

namespace {

constexpr float SMALLEST_GRADIENT = 1e-30F;  // that bytes know

// Rows a large power of two apart fall into the same few lines of the first-level cache: one line more in between.
std::size_t row_stride(const GradKernels& kernels, int depth) {
  const std::size_t bytes = sizeof(float) / kernels.packed, stride = static_cast<std::size_t>(depth);
  return stride * bytes % 1024 == 0 ? stride + CACHE_LINE / bytes : stride;
}

}  // namespace

LeftOperand::LeftOperand(const GradKernels& kernels, std::size_t rows, int depth, Scratch& scratch)
    : depth_(depth),
      stride_(row_stride(kernels, depth)),
      elements_(kernels, (rows + GRAD_ROWS) * stride_, scratch),
      zero_(static_cast<char>(kernels.packed == 4 ? GRAD_ZERO : 0)) {}

std::vector<GradPart> grad_parts(const BatchShape& s, const float* weight, const float* tail, float* gw, float* gtail) {
  const Groups ins = s.ins(), outs = s.outs();
  const bool even = ins.size(0) == ins.largest() && outs.size(0) == outs.largest();
  std::vector<GradPart> parts;
  for (int g = 0; g < s.groups; ++g) {
    GradPart part = {ins.first(g), ins.size(g), outs.first(g), outs.size(g), nullptr, nullptr};
    const bool in_tail = g == s.groups - 1 && !even;
    const std::size_t at = in_tail ? 0 : static_cast<std::size_t>(part.first_out) * part.in * s.taps();
    part.weight = (in_tail ? tail : weight) + at;
    if (gw != nullptr) part.grad = (in_tail ? gtail : gw) + at;
    parts.push_back(part);
  }
  return parts;
}

std::vector<GradGroup> grad_groups(const std::vector<GradPart>& parts, int most) {
  std::vector<GradGroup> groups;
  for (const GradPart& part : parts) {
    if (groups.empty() || std::max(groups.back().in + part.in, groups.back().out + part.out) > most) {
      groups.push_back({part.first_in, 0, part.first_out, 0, {}});
    }
    groups.back().join(part);
  }
  return groups;
}

void GradGroup::join(const GradPart& next) {
  in += next.in;
  out += next.out;
  parts.push_back(next);
}

const GradPart& GradGroup::part_of(int out_channel) const {
  const auto holds = [&](const GradPart& part) { return first_out + out_channel < part.first_out + part.out; };
  return *std::find_if(parts.begin(), parts.end(), holds);
}

bool are_looked_up(const BatchShape& shape, const GradPart& part, const GradKernels& kernels, int least) {
  return kernels.tables != nullptr && part.in * shape.taps() >= least;
}

void Rounding::set(const std::uint32_t* largest, int images) {
  const auto channels = static_cast<std::size_t>(channels_of_gy_);
  std::vector<std::uint32_t> of_images(images), of_channels(channels);
  for (std::uint32_t& image : of_images) {
    for (std::size_t c = 0; c < channels; ++c, ++largest) {
      image = std::max(image, *largest);
      of_channels[c] = std::max(of_channels[c], *largest);
    }
  }
  images_.set(BLOCK_ROWS, of_images);
  channels_.set(channels, of_channels);
}

// From the bits of largest magnitudes. What is not finite leaves nothing finite; what is next to nothing is 0.
void Rounding::OfRows::set(std::size_t rows, const std::vector<std::uint32_t>& magnitudes) {
  rates.resize(rows);
  sizes.resize(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    float largest;
    std::memcpy(&largest, &magnitudes[row % magnitudes.size()], sizeof largest);
    const bool counts = largest > SMALLEST_GRADIENT && std::isfinite(largest);
    rates[row] = counts ? GRAD_STEPS / largest : 0.0F;
    sizes[row] = counts ? largest / GRAD_STEPS : largest * 0.0F;
  }
}

}  // namespace ftbnn::training
