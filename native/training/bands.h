// Images cut into bands of positions, so that a few of them are work for all threads; and the largest magnitudes that
// those who work on a band find there, for each image.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/team.h"
#include "training/pieces.h"

namespace ftbnn::training {

class Bands {
 public:
  Bands(int images, std::size_t positions)
      : images_(static_cast<std::size_t>(images)),
        positions_(positions),
        bands_(std::min(positions, (TASKS + images_ - 1) / images_)),
        band_((positions + bands_ - 1) / bands_) {}

  // body(first position of all, positions, largest): where it puts the bits of the largest magnitudes of every channel,
  // which are 0 before. Of all, `largest` is made, [images][channels]; null if it is not wanted.
  template <typename Body>
  void run(std::size_t channels, std::vector<std::uint32_t>* largest, Team& team, const Body& body) const {
    if (largest != nullptr) largest->assign(images_ * bands_ * channels, 0);
    std::uint32_t* found = largest != nullptr ? largest->data() : nullptr;
    team.run(static_cast<int>(images_ * bands_), [&](int task) {
      const std::size_t at = static_cast<std::size_t>(task), first = at % bands_ * band_;
      if (first >= positions_) return;
      body(at / bands_ * positions_ + first, std::min(band_, positions_ - first), from(found, at * channels));
    });
    if (found == nullptr) return;
    for (std::size_t k = 0; k < images_ * bands_; ++k) {
      for (std::size_t c = 0; c < channels; ++c) {
        std::uint32_t& of_image = found[k / bands_ * channels + c];
        const std::uint32_t here = found[k * channels + c];
        of_image = k % bands_ == 0 ? here : std::max(of_image, here);
      }
    }
  }

 private:
  static constexpr std::size_t TASKS = 16;  // at least, for any number of threads
  std::size_t images_, positions_, bands_, band_;
};

}  // namespace ftbnn::training
