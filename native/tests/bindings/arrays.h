// How the kernels' bindings take arrays, and how they refuse them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <optional>
#include <string>

#include "base/table.h"

// Used where they lie, so that tests can put guards around them.
template <typename T, nanobind::ssize_t... Shape>
using Strided = nanobind::ndarray<nanobind::numpy, T, nanobind::shape<Shape...>, nanobind::device::cpu>;
template <typename T, nanobind::ssize_t... Shape>
using Packed =
    nanobind::ndarray<nanobind::numpy, const T, nanobind::shape<Shape...>, nanobind::c_contig, nanobind::device::cpu>;

inline void require(bool holds, const char* what) {
  if (!holds) throw nanobind::value_error(what);
}

template <typename Array>
int extent(const Array& array, int dimension) {
  return static_cast<int>(array.shape(static_cast<std::size_t>(dimension)));
}

template <typename Array>
std::size_t step(const Array& array, int dimension) {
  return static_cast<std::size_t>(array.stride(static_cast<std::size_t>(dimension)));
}

// What tests may run: all that the CPU has, even if slowly, and emulated tiles.
inline ftbnn::Features testable() {
  const ftbnn::Features own = ftbnn::cpu_features() | ftbnn::feature::other_rounding | ftbnn::feature::fast_permutes;
  return own | ((own & ftbnn::AVX512) == ftbnn::AVX512 ? ftbnn::feature::emulated_tiles : 0);
}

template <typename Kernels>
const Kernels& kernels_named(const ftbnn::Table<Kernels>& table, const std::string& name) {
  const ftbnn::Row<Kernels>* row = table.named(name, testable());
  require(row != nullptr, "no such kernels on this CPU");
  return row->kernels;
}
