// What the tiles could do at most: 2 x 2 tiles of sums, operands from the first-level cache, one load a product.
//
// Runs for about a millisecond on the calling thread and returns 1e9 multiply-accumulates a second. Call it only where
// there is amx.
#pragma once

namespace ftbnn {

double amx_int8_roof_gmacs();

}  // namespace ftbnn
