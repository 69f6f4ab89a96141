// The AMX kernel without AMX, for tests on machines that have AVX-512 alone.
#include "kernels/bconv_rows__amx.h"

namespace ftbnn {

void bconv_rows__amx_emulated(const BConvRows& rows) { bconv_rows<EmulatedTiles>(rows); }

}  // namespace ftbnn
