// zlib's CRC-32.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ftbnn {

std::uint32_t crc32(const std::uint8_t* data, std::size_t size);

}  // namespace ftbnn
