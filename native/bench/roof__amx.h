// What the tiles could do at most: 2 x 2 tiles of sums, operands from the first-level cache, one load a product.
//
// Each runs for about a millisecond on the calling thread and returns 1e9 multiply-accumulates a second. Call them only
// where cpu() has amx (for bf16: where its amx_bf16 is true).
#pragma once

namespace ftbnn {

double amx_int8_roof_gmacs();
double amx_bf16_roof_gmacs();

}  // namespace ftbnn
