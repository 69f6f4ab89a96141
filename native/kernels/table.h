// The kernels of every ISA: one table, from which dispatch, tests and benchmarks choose.
#pragma once

#include "base/cpu.h"
#include "kernels/bconv_rows.h"
#include "kernels/conv_row.h"
#include "kernels/rows.h"
#include "kernels/sliced_row.h"

namespace ftbnn {

struct Kernels {
  Isa isa;  // what the CPU must have
  ConvRowKernel conv_row;
  BConvRowKernel bconv_row;
  RowKernels rows;
  ExpandRowsKernel expand_rows;  // with tiles; null without
  BConvRowsKernel bconv_rows;
  PatchRowKernel patch_row;  // likewise
  SlicedRowKernel sliced_row;
};

// The best kernels that a CPU with this ISA can run.
const Kernels& kernels_for(Isa isa);

// The specification, for tests.
const Kernels& reference_kernels();

}  // namespace ftbnn
