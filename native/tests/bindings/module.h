// The parts of the extension that tests have.
#pragma once

#include <nanobind/nanobind.h>

void bind_convolutions(nanobind::module_& m);
void bind_rows(nanobind::module_& m);
void bind_gradients(nanobind::module_& m);
