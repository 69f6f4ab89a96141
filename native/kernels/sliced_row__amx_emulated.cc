// The AMX kernel without AMX, for tests on machines that have AVX-512 alone.
#include "kernels/sliced_row__amx.h"

namespace ftbnn {

void sliced_row__amx_emulated(const SlicedRow& row) { sliced_row<EmulatedTiles>(row); }

}  // namespace ftbnn
