// Tensors as Python hands them over: addresses.
#pragma once

#include <cstdint>

using Address = std::uintptr_t;  // 0 is null

template <typename T>
T* at(Address address) {
  return reinterpret_cast<T*>(address);
}
