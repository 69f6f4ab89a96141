#include "engine/reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "base/crc32.h"

namespace ftbnn {

namespace {

constexpr std::uint8_t MAGIC[8] = {0x89, 'F', 'T', 'B', 'N', 'N', '\r', '\n'};
constexpr std::size_t HEADER = 64;
constexpr std::uint64_t MAX_FILE = std::uint64_t{1} << 31;
constexpr const char* TOO_LARGE = "the file is larger than 2^31 bytes";
constexpr std::uint32_t MAX_LIST = 1U << 12, MAX_NAMES = 1U << 16, MAX_TEXT = 1U << 16, MAX_CHANNELS = 1U << 16,
                        MAX_SIDE = 1U << 14;
constexpr std::uint32_t MAX_KERNEL = 64, MAX_GROUPS = 1U << 12, MAX_RESIZE = 1U << 15;
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

class Cursor {
 public:
  Cursor(const std::uint8_t* data, std::size_t size) : at_(data), left_(size) {}

  template <typename T>
  T take(const char* what) {
    check(left_ >= sizeof(T), std::string("the graph ends inside ") + what);
    const T value = load<T>(at_);
    at_ += sizeof(T);
    left_ -= sizeof(T);
    return value;
  }

  int number(const char* what, std::uint32_t least, std::uint32_t most) {
    const auto value = take<std::uint32_t>(what);
    check(value >= least && value <= most, std::string(what) + " is " + std::to_string(value) + ", not " +
                                               std::to_string(least) + " to " + std::to_string(most));
    return static_cast<int>(value);
  }

  float real(const char* what) {
    const auto value = take<float>(what);
    check(std::isfinite(value), std::string(what) + " is not finite");
    return value;
  }

  std::string text(const char* what) {
    const auto size = static_cast<std::size_t>(number(what, 0, MAX_TEXT));
    check(left_ >= size, std::string("the graph ends inside ") + what);
    std::string value(reinterpret_cast<const char*>(at_), size);
    at_ += size;
    left_ -= size;
    check(is_utf8(value), std::string(what) + " is not UTF-8");
    return value;
  }

  bool is_done() const { return left_ == 0; }

 private:
  static bool is_utf8(const std::string& text) {
    for (std::size_t k = 0; k < text.size();) {
      const auto lead = static_cast<std::uint8_t>(text[k]);
      const int more = lead < 0x80                   ? 0
                       : lead >= 0xC2 && lead < 0xE0 ? 1
                       : (lead & 0xF0U) == 0xE0      ? 2
                       : lead >= 0xF0 && lead < 0xF5 ? 3
                                                     : -1;
      if (more < 0 || k + static_cast<std::size_t>(more) >= text.size()) return false;
      std::uint32_t point = more == 0 ? lead : lead & (0x3FU >> more);
      for (int j = 1; j <= more; ++j) {
        const auto next = static_cast<std::uint8_t>(text[k + static_cast<std::size_t>(j)]);
        if ((next & 0xC0U) != 0x80) return false;
        point = (point << 6) | (next & 0x3FU);
      }
      constexpr std::uint32_t least[] = {0, 0x80, 0x800, 0x10000};
      if (point < least[more] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) return false;
      k += static_cast<std::size_t>(more) + 1;
    }
    return true;
  }

  const std::uint8_t* at_;
  std::size_t left_;
};

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
    const auto version = load<std::uint32_t>(file + 8);
    check(version == 1, "the file has version " + std::to_string(version) + "; this reader knows version 1");
    check(load<std::uint32_t>(file + 60) == crc32(file, 60), "the header's checksum is wrong");
    check(load<std::uint32_t>(file + 12) == HEADER, "the header has another size than 64");
    check(std::all_of(file + 48, file + 60, [](std::uint8_t b) { return b == 0; }), "reserved bytes are not zero");
    const auto graph_bytes = load<std::uint64_t>(file + 16), payload_at = load<std::uint64_t>(file + 24);
    payload_bytes_ = load<std::uint64_t>(file + 32);
    check(size <= MAX_FILE && graph_bytes <= size - HEADER, "the graph is longer than the file");
    check(payload_at == round_up(HEADER + graph_bytes, 64), "the payload does not start where it should");
    check(payload_at <= size && payload_bytes_ == size - payload_at,
          "the file has " + std::to_string(size) + " bytes, its header says " + std::to_string(payload_at) + " + " +
              std::to_string(payload_bytes_));
    const std::uint8_t* graph = file + HEADER;
    payload_ = file + payload_at;
    check(std::all_of(graph + graph_bytes, payload_, [](std::uint8_t b) { return b == 0; }), "padding is not zero");
    check(load<std::uint32_t>(file + 40) == crc32(graph, graph_bytes), "the graph's checksum is wrong");
    check(load<std::uint32_t>(file + 44) == crc32(payload_, payload_bytes_), "the payload's checksum is wrong");
    return {graph, graph_bytes};
  }

  Shape shape(Cursor& graph) {
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
    is_written_.assign(model_.values.size(), false);
    is_written_[0] = true;
  }

  void operators(Cursor& graph) {
    const int count = graph.number("number of operators", 1, MAX_LIST);
    for (int k = 0; k < count; ++k) {
      model_.operators.push_back(one(graph));
      is_written_[static_cast<std::size_t>(model_.operators.back().output)] = true;
    }
    check(std::all_of(is_written_.begin(), is_written_.end(), [](bool b) { return b; }), "a value is never written");
    const std::size_t names = model_.class_names.size();
    check(names == 0 || names == model_.output().elements(),
          "there are " + std::to_string(names) + " class names for " + std::to_string(model_.output().elements()) +
              " outputs");
  }

  int readable(Cursor& graph) {
    const int id = graph.number("a value's number", 0, static_cast<std::uint32_t>(model_.values.size() - 1));
    check(is_written_[static_cast<std::size_t>(id)],
          at() + "reads value " + std::to_string(id) + " before it is written");
    return id;
  }

  std::string at() const { return where_.empty() ? "" : where_ + ": "; }
  const Shape& of(int value) const { return model_.values[static_cast<std::size_t>(value)]; }

  template <typename T>
  const T* blob(Cursor& graph, std::uint64_t items, const char* what) {
    const auto offset = graph.take<std::uint64_t>(what), bytes = graph.take<std::uint64_t>(what);
    check(bytes == items * sizeof(T),
          at() + what + " has " + std::to_string(bytes) + " bytes, not " + std::to_string(items * sizeof(T)));
    check(offset % 64 == 0 && offset <= payload_bytes_ && bytes <= payload_bytes_ - offset,
          at() + what + " lies outside the payload");
    return reinterpret_cast<const T*>(payload_ + offset);
  }

  const float* floats(Cursor& graph, std::uint64_t items, const char* what) {
    const float* data = blob<float>(graph, items, what);
    // The sum of x - x is 0 for finite numbers and NaN otherwise; unlike a test for each it runs vectorised.
    float rest = 0;
    for (std::uint64_t k = 0; k < items; ++k) rest += data[k] - data[k];
    check(rest == 0, at() + what + " has numbers that are not finite");
    return data;
  }

  void window(Cursor& graph, Operator& op) {
    Window& w = op.window;
    w.kh = graph.number("kernel height", 1, MAX_KERNEL);
    w.kw = graph.number("kernel width", 1, MAX_KERNEL);
    w.sh = graph.number("stride", 1, MAX_KERNEL);
    w.sw = graph.number("stride", 1, MAX_KERNEL);
    w.ph = graph.number("padding", 0, static_cast<std::uint32_t>(w.kh - 1));
    w.pw = graph.number("padding", 0, static_cast<std::uint32_t>(w.kw - 1));
    const Shape &in = of(op.inputs[0]), &out = of(op.output);
    check((out.h - 1) * w.sh - w.ph < in.h && (out.w - 1) * w.sw - w.pw < in.w,
          at() + "the output is larger than the windows that touch the image");
  }

  void tail(Cursor& graph, Operator& op) {
    const auto flags = graph.take<std::uint8_t>("an epilogue"), act = graph.take<std::uint8_t>("an epilogue");
    check(flags <= 7 && act <= 3, at() + "the epilogue is unknown");
    const Shape& out = of(op.output);
    const auto channels = static_cast<std::uint64_t>(out.c);
    if (flags & 1U) op.tail.scale = floats(graph, channels, "scale");
    if (flags & 2U) op.tail.shift = floats(graph, channels, "shift");
    if (flags & 4U) {
      op.tail.shortcut = readable(graph);
      check(of(op.tail.shortcut) == out, at() + "the shortcut has another shape than the output");
    }
    op.tail.act = static_cast<Act>(act);
    if (op.tail.act == Act::prelu || op.tail.act == Act::fprelu) op.tail.left = floats(graph, channels, "left slope");
    if (op.tail.act == Act::fprelu) op.tail.right = floats(graph, channels, "right slope");
  }

  // Weights of a grouped convolution: the groups' blocks, one after the other.
  std::uint64_t weights_of(const Operator& op) {
    const Groups in{of(op.inputs[0]).c, op.groups}, out{of(op.output).c, op.groups};
    std::uint64_t total = 0;
    for (int g = 0; g < op.groups; ++g)
      total += static_cast<std::uint64_t>(in.size(g)) * static_cast<std::uint64_t>(out.size(g));
    return total * static_cast<std::uint64_t>(op.window.kh * op.window.kw);
  }

  void groups(Cursor& graph, Operator& op) {
    op.groups = graph.number("groups", 1, MAX_GROUPS);
    check(op.groups <= std::min(of(op.inputs[0]).c, of(op.output).c), at() + "there are more groups than channels");
  }

  Operator one(Cursor& graph) {
    Operator op;
    where_.clear();
    const auto kind = graph.take<std::uint8_t>("an operator");
    check(kind >= 1 && kind <= 10, "an operator has the unknown kind " + std::to_string(kind));
    op.kind = static_cast<Kind>(kind);
    op.path = graph.text("a layer's path");
    where_ = op.path.empty() ? kind_name(op.kind) : op.path;
    const int inputs = graph.number("number of inputs", 1, MAX_LIST);
    check(inputs == 1 || op.kind == Kind::concat, at() + "has more than one input");
    for (int k = 0; k < inputs; ++k) op.inputs.push_back(readable(graph));
    op.output = graph.number("a value's number", 1, static_cast<std::uint32_t>(model_.values.size() - 1));
    check(!is_written_[static_cast<std::size_t>(op.output)], at() + "writes a value that is written already");
    fields(graph, op);
    return op;
  }

  void fields(Cursor& graph, Operator& op) {
    const Shape &in = of(op.inputs[0]), &out = of(op.output);
    const bool keeps_channels = in.c == out.c, keeps_size = in.h == out.h && in.w == out.w;
    switch (op.kind) {
      case Kind::conv:
      case Kind::bconv:
        window(graph, op);
        groups(graph, op);
        if (op.kind == Kind::conv) {
          op.weights = floats(graph, weights_of(op), "weights");
        } else {
          const auto code = graph.take<std::uint8_t>("a code");
          check(code <= 1, at() + "the code is neither {-1, +1} nor {0, 1}");
          op.zero_one = code == 1;
          const std::uint64_t count = weights_of(op);
          op.bits_bytes = static_cast<std::size_t>((count + 7) / 8);
          op.bits = blob<std::uint8_t>(graph, op.bits_bytes, "weights");
          check(count % 8 == 0 || op.bits[op.bits_bytes - 1] >> count % 8 == 0, at() + "spare bits are not zero");
        }
        return tail(graph, op);
      case Kind::linear:
        check(in.h == 1 && in.w == 1 && out.h == 1 && out.w == 1, at() + "linear takes and gives a vector");
        op.weights = floats(graph, static_cast<std::uint64_t>(in.c) * static_cast<std::uint64_t>(out.c), "weights");
        return tail(graph, op);
      case Kind::max_pool:
      case Kind::avg_pool:
        check(keeps_channels, at() + "a pool changes the number of channels");
        window(graph, op);
        if (op.kind == Kind::avg_pool) {
          const auto whole = graph.take<std::uint8_t>("a pool");
          check(whole <= 1, at() + "the pool's divisor is unknown");
          op.whole_window = whole == 1;
        }
        return;
      case Kind::average_to:
        return check(keeps_channels, at() + "an average changes the number of channels");
      case Kind::concat: {
        std::uint64_t channels = 0;
        for (const int id : op.inputs) {
          check(of(id).h == out.h && of(id).w == out.w, at() + "concat of different sizes");
          channels += static_cast<std::uint64_t>(of(id).c);
        }
        return check(channels == static_cast<std::uint64_t>(out.c), at() + "the channels do not add up");
      }
      case Kind::channels:
        check(keeps_size, at() + "a channel map changes the size");
        op.map = blob<std::int32_t>(graph, static_cast<std::uint64_t>(out.c), "map");
        return check(std::all_of(op.map, op.map + out.c, [&](std::int32_t c) { return c >= 0 && c < in.c; }),
                     at() + "the map points outside the channels");
      case Kind::pointwise:
        check(keeps_channels && keeps_size, at() + "a pointwise operator changes the shape");
        return tail(graph, op);
      case Kind::flatten:
        return check(out.h == 1 && out.w == 1 && static_cast<std::size_t>(out.c) == in.elements(),
                     at() + "flatten changes the number of elements");
    }
  }

  Model model_;
  Shape declared_input_;
  std::vector<bool> is_written_;
  std::string where_;
  const std::uint8_t* payload_ = nullptr;
  std::uint64_t payload_bytes_ = 0;
};

}  // namespace

const char* kind_name(Kind kind) {
  constexpr const char* names[] = {"",           "conv",   "bconv",    "linear",    "max-pool", "avg-pool",
                                   "average-to", "concat", "channels", "pointwise", "flatten"};
  return names[static_cast<int>(kind)];
}

Model parse(const void* bytes, std::size_t size) {
  check(size <= MAX_FILE, TOO_LARGE);
  AlignedArray<std::uint8_t> copy(size);
  if (size > 0) std::memcpy(copy.data(), bytes, size);
  return Parser(std::move(copy)).parse();
}

Model read_model(const std::string& path) {
  const auto failed = [&path] { return std::system_error(errno, std::generic_category(), path); };
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
  struct stat about{};
  if (!file || fstat(fileno(file.get()), &about) != 0) throw failed();
  if (S_ISDIR(about.st_mode)) errno = EISDIR;
  if (S_ISDIR(about.st_mode) || std::fseek(file.get(), 0, SEEK_END) != 0) throw failed();
  const long size = std::ftell(file.get());
  if (size < 0) throw failed();
  check(static_cast<std::uint64_t>(size) <= MAX_FILE, TOO_LARGE);
  std::rewind(file.get());
  AlignedArray<std::uint8_t> bytes(static_cast<std::size_t>(size));
  std::setvbuf(file.get(), nullptr, _IONBF, 0);
  if (std::fread(bytes.data(), 1, bytes.size(), file.get()) != bytes.size()) throw failed();
  return Parser(std::move(bytes)).parse();
}

}  // namespace ftbnn
