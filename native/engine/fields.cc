#include "engine/fields.h"

#include <cmath>

#include "base/text.h"
#include "engine/operators/operator.h"

namespace ftbnn {

namespace {

constexpr std::uint32_t MAX_INPUTS = 1U << 12, MAX_TEXT = 1U << 16, MAX_KERNEL = 64, MAX_GROUPS = 1U << 12;

bool is_utf8(const std::string& text) {
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

// Four sums side by side, so that the additions do not wait for each other: x - x is 0 for finite numbers only.
bool all_finite(const float* data, std::uint64_t count) {
  float rest[4] = {};
  std::uint64_t k = 0;
  for (; k + 4 <= count; k += 4) {
    for (int j = 0; j < 4; ++j)
      rest[j] += data[k + static_cast<std::uint64_t>(j)] - data[k + static_cast<std::uint64_t>(j)];
  }
  for (; k < count; ++k) rest[0] += data[k] - data[k];
  return rest[0] + rest[1] + rest[2] + rest[3] == 0;
}

}  // namespace

const std::uint8_t* Cursor::take_bytes(std::size_t count, const char* what) {
  if (left_ < count) throw FormatError(std::string("the graph ends inside ") + what);
  const std::uint8_t* taken = at_;
  at_ += count;
  left_ -= count;
  return taken;
}

int Cursor::number(const char* what, std::uint32_t least, std::uint32_t most) {
  const auto value = take<std::uint32_t>(what);
  if (value < least || value > most) {
    throw FormatError(std::string(what) + " is " + std::to_string(value) + ", not " + std::to_string(least) + " to " +
                      std::to_string(most));
  }
  return static_cast<int>(value);
}

float Cursor::real(const char* what) {
  const auto value = take<float>(what);
  if (!std::isfinite(value)) throw FormatError(std::string(what) + " is not finite");
  return value;
}

std::string Cursor::text(const char* what) {
  const auto size = static_cast<std::size_t>(number(what, 0, MAX_TEXT));
  const std::uint8_t* bytes = take_bytes(size, what);
  std::string value(bytes, bytes + size);
  if (!is_utf8(value)) throw FormatError(std::string(what) + " is not UTF-8");
  if (value.find('\0') != std::string::npos) throw FormatError(std::string(what) + " has a zero byte");
  return value;
}

const std::uint8_t* Payload::at(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset % CACHE_LINE != 0 || offset > size_ || bytes > size_ - offset) return nullptr;
  return data_ + offset;
}

// Looks through the parts that no earlier range has covered, and joins the ranges.
bool Payload::are_finite(std::uint64_t offset, std::uint64_t floats) {
  std::uint64_t first = offset, at = offset;
  const std::uint64_t end = offset + floats * sizeof(float);
  auto next = finite_.upper_bound(at);
  if (next != finite_.begin()) {
    const auto before = std::prev(next);
    if (before->second >= at) {
      first = before->first;
      at = before->second;
    }
  }
  while (at < end) {
    const std::uint64_t stop = next != finite_.end() && next->first < end ? next->first : end;
    if (!all_finite(reinterpret_cast<const float*>(data_ + at), (stop - at) / sizeof(float))) return false;
    at = stop;
    if (next != finite_.end() && next->first == stop) {
      at = next->second;
      next = finite_.erase(next);
    }
  }
  finite_[first] = at > end ? at : end;
  return true;
}

void Fields::check(bool holds, const std::string& what) const {
  if (!holds) throw FormatError(where_.empty() ? what : where_ + ": " + what);
}

int Fields::readable() {
  const int id = graph_.number("a value's number", 0, static_cast<std::uint32_t>(model_.values.size() - 1));
  check(is_written_[static_cast<std::size_t>(id)], "reads value " + std::to_string(id) + " before it is written");
  return id;
}

void Fields::read(Operator& op) {
  op_ = &op;
  where_.clear();
  const auto number = graph_.take<std::uint8_t>("an operator");
  op.kind = operator_kind(number);
  check(op.kind != nullptr && version_ >= op.kind->version,
        "an operator has the unknown kind " + std::to_string(number));
  op.weight_bits = op.kind->weight_bits;
  op.path = graph_.text("a layer's path");
  where_ = op.path.empty() ? op.kind->name : shown(op.path);
  const int inputs = graph_.number("number of inputs", 1, MAX_INPUTS);
  check(inputs == 1 || op.kind->takes_several, "has more than one input");
  for (int k = 0; k < inputs; ++k) op.inputs.push_back(readable());
  op.output = graph_.number("a value's number", 1, static_cast<std::uint32_t>(model_.values.size() - 1));
  check(!is_written_[static_cast<std::size_t>(op.output)], "writes a value that is written already");
  op.kind->read(*this);
}

int Fields::flags(const char* what, int most) {
  const int value = graph_.take<std::uint8_t>(what);
  check(value <= most, std::string("has the unknown ") + what + " " + std::to_string(value));
  return value;
}

void Fields::window() {
  Window& w = op_->window;
  w.kh = graph_.number("kernel height", 1, MAX_KERNEL);
  w.kw = graph_.number("kernel width", 1, MAX_KERNEL);
  w.sh = graph_.number("stride", 1, MAX_KERNEL);
  w.sw = graph_.number("stride", 1, MAX_KERNEL);
  w.ph = graph_.number("padding", 0, static_cast<std::uint32_t>(w.kh - 1));
  w.pw = graph_.number("padding", 0, static_cast<std::uint32_t>(w.kw - 1));
  check((out().h - 1) * w.sh - w.ph < in().h && (out().w - 1) * w.sw - w.pw < in().w,
        "the output is larger than the windows that touch the image");
}

void Fields::groups() {
  op_->groups = graph_.number("groups", 1, MAX_GROUPS);
  check(op_->groups <= in().c && op_->groups <= out().c, "there are more groups than channels");
}

void Fields::epilogue() {
  enum { HAS_SCALE = 1, HAS_SHIFT = 2, HAS_SHORTCUT = 4, HAS_AFTER = 8, HAS_PIECES = 16 };
  Tail& tail = op_->tail;
  const int has = flags("epilogue", is_version(5) ? 31 : is_version(2) ? 15 : 7);
  const int act = flags("non-linearity", is_version(2) ? 9 : 3);
  const auto channels = static_cast<std::uint64_t>(out().c);
  if (has & HAS_SCALE) tail.scale = floats(channels, "scale");
  if (has & HAS_SHIFT) tail.shift = floats(channels, "shift");
  if (has & HAS_SHORTCUT) {
    tail.shortcut = readable();
    check(of(tail.shortcut) == out(), "the shortcut has another shape than the output");
  }
  if (act <= static_cast<int>(Act::clamp)) {
    tail.act = static_cast<Act>(act);
  } else {
    tail.curve = static_cast<Curve>(act - static_cast<int>(Act::clamp));
  }
  if (tail.act == Act::prelu || tail.act == Act::fprelu) tail.left = floats(channels, "left slope");
  if (tail.act == Act::fprelu) tail.right = floats(channels, "right slope");
  if (tail.act == Act::clamp) {
    tail.low = graph_.real("a clamp's lower end");
    tail.high = graph_.real("a clamp's upper end");
    check(tail.low <= tail.high, "a clamp's ends are in the wrong order");
  }
  if (has & HAS_AFTER) tail.after = floats(channels, "what is added behind");
  if (has & HAS_PIECES) {
    tail.first_left = floats(channels, "first left slope");
    tail.first_right = floats(channels, "first right slope");
  }
}

const std::uint8_t* Fields::blob_bytes(std::uint64_t bytes, const char* what, std::uint64_t* where) {
  const auto offset = graph_.take<std::uint64_t>(what), size = graph_.take<std::uint64_t>(what);
  check(size == bytes, std::string(what) + " has " + std::to_string(size) + " bytes, not " + std::to_string(bytes));
  const std::uint8_t* data = payload_.at(offset, bytes);
  check(data != nullptr, std::string(what) + " lies outside the payload");
  if (where != nullptr) *where = offset;
  return data;
}

const float* Fields::floats(std::uint64_t count, const char* what) {
  std::uint64_t offset = 0;
  const std::uint8_t* data = blob_bytes(count * sizeof(float), what, &offset);
  check(payload_.are_finite(offset, count), std::string(what) + " has numbers that are not finite");
  return reinterpret_cast<const float*>(data);
}

}  // namespace ftbnn
