// Channels over groups, and output channels over panels.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/epilogue/epilogue.h"

namespace ftbnn {

inline std::size_t words_of(int channels) { return (static_cast<std::size_t>(channels) + 63) / 64; }

// Channels of group g: floor(channels / groups), the last group takes the remainder too.
struct Groups {
  int channels, groups;
  int first(int g) const { return g * (channels / groups); }
  int size(int g) const { return g + 1 < groups ? channels / groups : channels - first(g); }
  int largest() const { return size(groups - 1); }
};

// Up to PANEL output channels of one group: what a kernel makes at a time, and what shares 32 bits of codes.
struct Panel {
  int group, first, channels;
};

inline std::vector<Panel> panels_of(const Groups& out) {
  std::vector<Panel> panels;
  for (int g = 0; g < out.groups; ++g) {
    for (int c = 0; c < out.size(g); c += PANEL) {
      const int left = out.size(g) - c;
      panels.push_back({g, out.first(g) + c, left < PANEL ? left : PANEL});
    }
  }
  return panels;
}

// Output channels [first, last) of a panel that are one group's, where panels go over the borders of groups.
struct PanelPart {
  int group, first, last;
};

inline std::vector<PanelPart> parts_of(const Panel& panel, const Groups& outs) {
  std::vector<PanelPart> parts;
  for (int c = 0, last; c < panel.channels; c = last) {
    const int found = (panel.first + c) / outs.size(0), g = found < outs.groups ? found : outs.groups - 1;
    const int end = outs.first(g) + outs.size(g) - panel.first;
    last = end < panel.channels ? end : panel.channels;
    parts.push_back({g, c, last});
  }
  return parts;
}

// How many panels that makes.
inline std::size_t panel_count(const Groups& out) {
  const auto of = [](int channels) { return (static_cast<std::size_t>(channels) + PANEL - 1) / PANEL; };
  return static_cast<std::size_t>(out.groups - 1) * of(out.size(0)) + of(out.largest());
}

}  // namespace ftbnn
