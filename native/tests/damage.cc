// Damaged files for the reader, meant to run under sanitizers (make sanitize): every truncation, flipped bits, and
// flipped bits behind right checksums. What still loads is run. A finding is a sanitizer's report or an assertion.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "engine/engine.h"
#include "engine/reader.h"

namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr int FLIPS = 10000, SEALED_FLIPS = 3000;
constexpr std::size_t HEADER = 64;

std::uint32_t crc32(const std::uint8_t* data, std::size_t size) {
  std::uint32_t crc = ~0U;
  for (std::size_t k = 0; k < size; ++k) {
    crc ^= data[k];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1U ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

template <typename T>
T get(const Bytes& file, std::size_t at) {
  T value;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}

void put(Bytes& file, std::size_t at, std::uint32_t value) { std::memcpy(file.data() + at, &value, sizeof value); }

// Makes the checksums right again after a change of the graph.
void seal(Bytes& file) {
  put(file, 40, crc32(file.data() + HEADER, get<std::uint64_t>(file, 16)));
  put(file, 60, crc32(file.data(), 60));
}

// True if the file was accepted; then it has run, on zeros.
bool try_file(const Bytes& file) {
  try {
    const ftbnn::Engine engine(ftbnn::parse(file.data(), file.size(), {}), 2);
    const std::vector<float> image(engine.model().input().elements());
    std::vector<float> output(engine.model().output().elements());
    engine.run(image.data(), 1, output.data());
    return true;
  } catch (const ftbnn::FormatError&) {
    return false;
  }
}

Bytes flipped(const Bytes& file, std::size_t bit) {
  Bytes broken = file;
  broken[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
  return broken;
}

int test(const char* path) {
  std::ifstream stream(path, std::ios::binary);
  const Bytes file{std::istreambuf_iterator<char>(stream), {}};
  if (!try_file(file)) return std::fprintf(stderr, "%s: the undamaged file does not load\n", path), 1;
  int accepted = 0;
  // A copy of each length, so that a read past the end is one past an allocation.
  for (std::size_t size = 0; size < file.size(); ++size)
    accepted += try_file(Bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)));
  std::mt19937_64 random(1);
  for (int k = 0; k < FLIPS; ++k) accepted += try_file(flipped(file, random() % (8 * file.size())));
  if (accepted > 0) return std::fprintf(stderr, "%s: %d damaged files were accepted\n", path, accepted), 1;
  int sealed = 0;
  const std::size_t graph_bits = 8 * get<std::uint64_t>(file, 16);
  for (int k = 0; k < SEALED_FLIPS; ++k) {
    Bytes broken = flipped(file, 8 * HEADER + random() % graph_bits);
    seal(broken);
    sealed += try_file(broken);
  }
  std::printf("%s: %zu truncations and %d flips refused; %d of %d sealed flips are another network, which ran\n", path,
              file.size(), FLIPS, sealed, SEALED_FLIPS);
  return 0;
}

}  // namespace

int main(int count, char** paths) {
  int failed = count < 2;
  for (int k = 1; k < count; ++k) failed |= test(paths[k]);
  return failed;
}
