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
void expand_rows__amx(const CodeImage&, int, int);
void expand_rows__reference(const CodeImage&, int, int);
void bconv_rows__amx(const BConvRows&);
void bconv_rows__amx_emulated(const BConvRows&);
void bconv_rows__reference(const BConvRows&);
void patch_row__amx(const PatchRow&);
void patch_row__reference(const PatchRow&);
void sliced_row__amx(const SlicedRow&);
void sliced_row__amx_emulated(const SlicedRow&);
void sliced_row__reference(const SlicedRow&);

#define FTBNN_ROW_KERNELS(ISA)                                                                             \
  void max_pool_row__##ISA(const PoolRow&);                                                                \
  void average_pool_row__##ISA(const PoolRow&);                                                            \
  void sign_row__##ISA(const SignRow&);                                                                    \
  void ones_row__##ISA(const OnesRow&);                                                                    \
  void pointwise_row__##ISA(const PointwiseRow&);                                                          \
  void interleave_row__##ISA(const InterleaveRow&);                                                        \
  void normalise_row__##ISA(const NormaliseRow&);                                                          \
  constexpr RowKernels rows__##ISA = {max_pool_row__##ISA, average_pool_row__##ISA, sign_row__##ISA,       \
                                      ones_row__##ISA,     pointwise_row__##ISA,    interleave_row__##ISA, \
                                      normalise_row__##ISA};
#if defined(__x86_64__)
FTBNN_ROW_KERNELS(avx512)
FTBNN_ROW_KERNELS(avx2)
#endif
FTBNN_ROW_KERNELS(portable)

namespace {

// Best first; portable is last and runs anywhere.
constexpr Kernels table[] = {
#if defined(__x86_64__)
    {Isa::amx, conv_row__avx512, bconv_row__avx512, rows__avx512, expand_rows__amx, bconv_rows__amx, patch_row__amx,
     sliced_row__amx},
    {Isa::amx_emulated, conv_row__avx512, bconv_row__avx512, rows__avx512, expand_rows__amx, bconv_rows__amx_emulated,
     patch_row__amx, sliced_row__amx_emulated},
    {Isa::avx512, conv_row__avx512, bconv_row__avx512, rows__avx512, nullptr, nullptr, nullptr, nullptr},
    {Isa::avx2, conv_row__avx2, bconv_row__avx2, rows__avx2, nullptr, nullptr, nullptr, nullptr},
#endif
    {Isa::portable, conv_row__portable, bconv_row__portable, rows__portable, nullptr, nullptr, nullptr, nullptr},
};

constexpr Kernels reference = {Isa::portable,        conv_row__reference,    bconv_row__reference,
                               rows__portable,       expand_rows__reference, bconv_rows__reference,
                               patch_row__reference, sliced_row__reference};

}  // namespace

const Kernels& kernels_for(Isa isa) {
  const Kernels* found = table;
  while (found->isa > isa) ++found;  // Isa counts upwards from portable; what a row is made for runs on all above it
  return *found;
}

const Kernels& reference_kernels() { return reference; }

}  // namespace ftbnn
