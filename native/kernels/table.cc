#include "kernels/table.h"

namespace ftbnn {

void conv_row__avx512(const ConvRow&);
void conv_row__avx2(const ConvRow&);
void conv_row__portable(const ConvRow&);
void conv_row__reference(const ConvRow&);
void bconv_row__avx512(const BConvRow&);
void bconv_row__avx2(const BConvRow&);
void bconv_row__portable(const BConvRow&);
void bconv_row__reference(const BConvRow&);

namespace {

// Best first; portable is last and runs anywhere.
constexpr Kernels table[] = {
#if defined(__x86_64__)
    {Isa::avx512, conv_row__avx512, bconv_row__avx512},
    {Isa::avx2, conv_row__avx2, bconv_row__avx2},
#endif
    {Isa::portable, conv_row__portable, bconv_row__portable},
};

constexpr Kernels reference = {Isa::portable, conv_row__reference, bconv_row__reference};

}  // namespace

const Kernels& kernels_for(Isa isa) {
  const Kernels* found = table;
  while (found->isa > isa) ++found;  // Isa counts upwards from portable, each with all that the ones before it have
  return *found;
}

const Kernels& reference_kernels() { return reference; }

}  // namespace ftbnn
