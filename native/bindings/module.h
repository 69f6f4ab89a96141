// The parts of the extension.
#pragma once

#include <nanobind/nanobind.h>

void bind_engine(nanobind::module_& m);
void bind_bench(nanobind::module_ m);
void bind_data(nanobind::module_ m);
void bind_training(nanobind::module_ m);
void bind_training_real(nanobind::module_ m);
