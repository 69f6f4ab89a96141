// Tensors as Python hands them over: by name, each with its address and its number of elements.
//
// No array type, so that one build serves every version of PyTorch. Type and layout are checked in ftbnn/nn/native;
// here every number of elements is compared with what the operator will touch.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <initializer_list>
#include <string>

namespace ftbnn::training {

inline std::size_t product(std::initializer_list<int> sizes) {
  std::size_t all = 1;
  for (const int size : sizes) all *= static_cast<std::size_t>(size);
  return all;
}

class Arrays {
 public:
  explicit Arrays(const nanobind::dict& given) : given_(given) {}

  // Null if it is absent.
  template <typename T>
  T* optional(const char* name, std::size_t elements) const {
    if (!given_.contains(name)) return nullptr;
    const auto pair = nanobind::cast<nanobind::tuple>(given_[name]);
    const auto count = nanobind::cast<std::size_t>(pair[1]);
    if (count != elements) {
      throw nanobind::value_error(
          (std::string(name) + " has " + std::to_string(count) + " elements, not " + std::to_string(elements)).c_str());
    }
    return reinterpret_cast<T*>(nanobind::cast<std::uintptr_t>(pair[0]));
  }

  template <typename T>
  T* required(const char* name, std::size_t elements) const {
    T* found = optional<T>(name, elements);
    if (found == nullptr) throw nanobind::value_error((std::string(name) + " is missing").c_str());
    return found;
  }

 private:
  const nanobind::dict& given_;
};

}  // namespace ftbnn::training
