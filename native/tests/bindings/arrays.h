// How the kernels' bindings take arrays, and how they refuse them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

// Used where they lie, so that tests can put guards around them.
template <typename T, nanobind::ssize_t... Shape>
using Strided = nanobind::ndarray<nanobind::numpy, T, nanobind::shape<Shape...>, nanobind::device::cpu>;
template <typename T, nanobind::ssize_t... Shape>
using Packed =
    nanobind::ndarray<nanobind::numpy, const T, nanobind::shape<Shape...>, nanobind::c_contig, nanobind::device::cpu>;

inline void require(bool holds, const char* what) {
  if (!holds) throw nanobind::value_error(what);
}
