#include "base/text.h"

#include <cstdint>

namespace ftbnn {

std::string shown(const std::string& utf8, std::size_t most) {
  constexpr char digits[] = "0123456789abcdef";
  std::string line;
  for (std::size_t k = 0; k < utf8.size(); ++k) {
    const auto byte = static_cast<std::uint8_t>(utf8[k]);
    const bool begins = (byte & 0xC0U) != 0x80;  // a character, and not the rest of one
    if (begins && line.size() + 4 > most) return line + "...";
    // Behind the ASCII control characters come 32 more, U+0080 to U+009F, which are C2 80 to C2 9F.
    const auto next = k + 1 < utf8.size() ? static_cast<std::uint8_t>(utf8[k + 1]) : 0;
    if (byte < 0x20 || byte == 0x7F) {
      line += std::string("\\x") + digits[byte >> 4] + digits[byte & 15U];
    } else if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {
      line += std::string("\\x") + digits[next >> 4] + digits[next & 15U];
      ++k;
    } else {
      line += utf8[k];
    }
  }
  return line;
}

}  // namespace ftbnn
