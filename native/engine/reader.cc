#include "engine/reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "base/crc32.h"
#include "engine/fields.h"

namespace ftbnn {

namespace {

constexpr std::uint8_t MAGIC[8] = {0x89, 'F', 'T', 'B', 'N', 'N', '\r', '\n'};
constexpr std::size_t HEADER = 64;
constexpr std::uint32_t NEWEST = 5;
constexpr std::uint64_t MAX_FILE = std::uint64_t{1} << 31;
constexpr std::uint32_t MAX_LIST = 1U << 12, MAX_NAMES = 1U << 16, MAX_CHANNELS = 1U << 16, MAX_SIDE = 1U << 14,
                        MAX_RESIZE = 1U << 15;
constexpr std::uint64_t MAX_ELEMENTS = std::uint64_t{1} << 28;

template <typename T>
T load(const std::uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

void check(bool holds, const std::string& what) {
  if (!holds) throw FormatError(what);
}

void check_size(std::uint64_t size, const Limits& limits) {
  check(size <= MAX_FILE, "the file is larger than 2^31 bytes");
  check(size <= limits.bytes(), "the file has " + std::to_string(size) + " bytes, more than the " +
                                    std::to_string(limits.bytes()) + " it may take (max_bytes)");
}

bool are_zero(const std::uint8_t* first, const std::uint8_t* last) {
  return std::all_of(first, last, [](std::uint8_t byte) { return byte == 0; });
}

class Parser {
 public:
  explicit Parser(AlignedArray<std::uint8_t> bytes) { model_.bytes = std::move(bytes); }

  Model parse() {
    Cursor graph = header();
    input(graph);
    values(graph);
    operators(graph);
    check(graph.is_done(), "bytes are left over behind the last operator");
    return std::move(model_);
  }

 private:
  Cursor header() {
    const std::uint8_t* file = model_.bytes.data();
    const std::uint64_t size = model_.bytes.size();
    check(size >= HEADER, "the file is shorter than a header");
    check(std::memcmp(file, MAGIC, sizeof MAGIC) == 0, "this is not a .ftbnn file");
    version_ = load<std::uint32_t>(file + 8);
    check(version_ >= 1 && version_ <= NEWEST, "the file has version " + std::to_string(version_) +
                                                   "; this reader knows versions up to " + std::to_string(NEWEST));
    check(load<std::uint32_t>(file + 60) == crc32(file, 60), "the header's checksum is wrong");
    check(load<std::uint32_t>(file + 12) == HEADER, "the header has another size than 64");
    check(are_zero(file + 48, file + 60), "reserved bytes are not zero");
    const auto graph_bytes = load<std::uint64_t>(file + 16), payload_at = load<std::uint64_t>(file + 24);
    const auto payload_bytes = load<std::uint64_t>(file + 32);
    check(graph_bytes <= size - HEADER, "the graph is longer than the file");
    check(payload_at == (HEADER + graph_bytes + 63) / 64 * 64, "the payload does not start where it should");
    check(payload_at <= size && payload_bytes == size - payload_at,
          "the file has " + std::to_string(size) + " bytes, its header says " + std::to_string(payload_at) + " + " +
              std::to_string(payload_bytes));
    const std::uint8_t *graph = file + HEADER, *payload = file + payload_at;
    check(are_zero(graph + graph_bytes, payload), "padding is not zero");
    check(load<std::uint32_t>(file + 40) == crc32(graph, static_cast<std::size_t>(graph_bytes)),
          "the graph's checksum is wrong");
    check(load<std::uint32_t>(file + 44) == crc32(payload, static_cast<std::size_t>(payload_bytes)),
          "the payload's checksum is wrong");
    payload_ = Payload(payload, payload_bytes);
    return {graph, static_cast<std::size_t>(graph_bytes)};
  }

  static Shape shape(Cursor& graph) {
    Shape s;
    s.c = graph.number("channels", 1, MAX_CHANNELS);
    s.h = graph.number("height", 1, MAX_SIDE);
    s.w = graph.number("width", 1, MAX_SIDE);
    check(s.elements() <= MAX_ELEMENTS, "a value has more than 2^28 elements");
    return s;
  }

  void input(Cursor& graph) {
    model_.name = graph.text("the model's name");
    declared_input_ = shape(graph);
    for (int c = 0; c < declared_input_.c; ++c) model_.mean.push_back(graph.real("mean"));
    for (int c = 0; c < declared_input_.c; ++c) {
      model_.std.push_back(graph.real("deviation"));
      check(model_.std.back() > 0, "a deviation is not positive");
    }
    model_.resize = graph.number("resize", 1, MAX_RESIZE);
    const int names = graph.number("number of class names", 0, MAX_NAMES);
    for (int k = 0; k < names; ++k) model_.class_names.push_back(graph.text("a class name"));
  }

  void values(Cursor& graph) {
    const int count = graph.number("number of values", 2, MAX_LIST);
    for (int k = 0; k < count; ++k) model_.values.push_back(shape(graph));
    check(model_.values.front() == declared_input_, "value 0 is not the input");
  }

  void operators(Cursor& graph) {
    std::vector<bool> is_written(model_.values.size(), false);
    is_written[0] = true;
    Fields fields(graph, payload_, model_, version_, is_written);
    const int count = graph.number("number of operators", 1, MAX_LIST);
    for (int k = 0; k < count; ++k) {
      model_.operators.emplace_back();
      fields.read(model_.operators.back());
      is_written[static_cast<std::size_t>(model_.operators.back().output)] = true;
    }
    check(std::all_of(is_written.begin(), is_written.end(), [](bool b) { return b; }), "a value is never written");
    const std::uint64_t names = model_.class_names.size();
    check(names == 0 || names == model_.output().elements(),
          "there are " + std::to_string(names) + " class names for " + std::to_string(model_.output().elements()) +
              " outputs");
  }

  Model model_;
  Shape declared_input_;
  Payload payload_;
  std::uint32_t version_ = 0;
};

}  // namespace

Model parse(const void* bytes, std::size_t size, const Limits& limits) {
  check_size(size, limits);
  AlignedArray<std::uint8_t> copy(size);
  if (size > 0) std::memcpy(copy.data(), bytes, size);
  return Parser(std::move(copy)).parse();
}

Model read_model(const std::string& path, const Limits& limits) {
  const auto failed = [&path](int number) { return std::system_error(number, std::generic_category(), path); };
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  struct stat about{};
  if (stat(path.c_str(), &about) != 0) throw failed(errno);  // before opening, which waits for a pipe's other end
  if (S_ISDIR(about.st_mode)) throw failed(EISDIR);
  check(S_ISREG(about.st_mode), "this is not a file of its own, but a pipe or a device");
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
  if (!file) throw failed(errno);
  check_size(static_cast<std::uint64_t>(about.st_size), limits);
  AlignedArray<std::uint8_t> bytes(static_cast<std::size_t>(about.st_size));
  std::setvbuf(file.get(), nullptr, _IONBF, 0);
  errno = 0;
  if (std::fread(bytes.data(), 1, bytes.size(), file.get()) != bytes.size()) {
    if (errno != 0) throw failed(errno);
    throw FormatError("the file became shorter while it was read");
  }
  return Parser(std::move(bytes)).parse();
}

}  // namespace ftbnn
