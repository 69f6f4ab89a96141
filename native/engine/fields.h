// The fields of an operator, as its own file reads them: each is checked, and errors say which operator it is.
#pragma once

#include <cstring>
#include <map>

#include "engine/model.h"

namespace ftbnn {

// Bytes of the graph, from front to back.
class Cursor {
 public:
  Cursor(const std::uint8_t* data, std::size_t size) : at_(data), left_(size) {}

  template <typename T>
  T take(const char* what) {
    T value;
    std::memcpy(&value, take_bytes(sizeof(T), what), sizeof(T));
    return value;
  }
  int number(const char* what, std::uint32_t least, std::uint32_t most);
  float real(const char* what);  // finite
  std::string text(const char* what);
  bool is_done() const { return left_ == 0; }

 private:
  const std::uint8_t* take_bytes(std::size_t count, const char* what);

  const std::uint8_t* at_;
  std::size_t left_;
};

// The numbers behind the graph. Blobs may be shared: none is looked through twice.
class Payload {
 public:
  Payload() = default;
  Payload(const std::uint8_t* data, std::uint64_t size) : data_(data), size_(size) {}

  // Null if it lies outside or not on a cache line.
  const std::uint8_t* at(std::uint64_t offset, std::uint64_t bytes) const;
  bool are_finite(std::uint64_t offset, std::uint64_t floats);

 private:
  const std::uint8_t* data_ = nullptr;
  std::uint64_t size_ = 0;
  std::map<std::uint64_t, std::uint64_t> finite_;  // ranges that are known to be: first byte to end
};

class Fields {
 public:
  Fields(Cursor& graph, Payload& payload, const Model& model, std::uint32_t version, std::vector<bool>& is_written)
      : graph_(graph), payload_(payload), model_(model), version_(version), is_written_(is_written) {}

  // Kind, path, inputs and output; the operator's own file reads the rest.
  void read(Operator& op);

  const Shape& in() const { return of(op_->inputs[0]); }
  const Shape& out() const { return of(op_->output); }
  const Shape& of(int value) const { return model_.values[static_cast<std::size_t>(value)]; }
  Operator& op() { return *op_; }

  void check(bool holds, const std::string& what) const;  // throws FormatError
  bool keeps_channels() const { return in().c == out().c; }
  bool keeps_size() const { return in().h == out().h && in().w == out().w; }

  int flags(const char* what, int most);  // one byte, 0 to most
  int number(const char* what, std::uint32_t least, std::uint32_t most) { return graph_.number(what, least, most); }
  bool is_version(std::uint32_t version) const { return version_ >= version; }
  void window();
  void groups();
  void epilogue();
  const float* floats(std::uint64_t count, const char* what);
  template <typename T>
  const T* blob(std::uint64_t count, const char* what) {
    return reinterpret_cast<const T*>(blob_bytes(count * sizeof(T), what));
  }

 private:
  int readable();
  const std::uint8_t* blob_bytes(std::uint64_t bytes, const char* what, std::uint64_t* offset = nullptr);

  Cursor& graph_;
  Payload& payload_;
  const Model& model_;
  std::uint32_t version_;
  std::vector<bool>& is_written_;
  Operator* op_ = nullptr;
  std::string where_;
};

}  // namespace ftbnn
