#include <algorithm>

#include "kernels/conv_grad/conv_grad.h"

namespace ftbnn {

extern const GradKernels grad_kernels__amx, grad_kernels__amx_emulated;
extern const GradKernels grad_kernels__avx512bf16;
extern const GradKernels grad_kernels__avx512;
extern const GradKernels grad_kernels__avx2;
extern const GradKernels grad_kernels__portable;
extern const GradKernels grad_kernels__avx512vnni;
extern const GradKernels grad_kernels__portable_bytes;

namespace {

// Best first; portable is last and runs anywhere.
constexpr const GradKernels* table[] = {
#if defined(__x86_64__)
    &grad_kernels__amx,      &grad_kernels__avx512bf16, &grad_kernels__avx512, &grad_kernels__avx2,
#endif
    &grad_kernels__portable,
};

constexpr const char *EMULATED = "amx emulated", *VNNI = "avx512vnni", *BYTES = "portable bytes";

bool has(Isa isa) { return std::find(cpu().isas.begin(), cpu().isas.end(), isa) != cpu().isas.end(); }

// AMX may come without bf16, in tiles or in vectors.
bool runs(Isa isa) { return has(isa) && (isa != Isa::amx || (cpu().amx_bf16 && has(Isa::avx512bf16))); }

bool has_vnni() { return has(Isa::avx512) && cpu().avx512_vnni; }

}  // namespace

const GradKernels& grad_kernels_for(Isa isa) {
  const GradKernels* const* found = table;
  while ((*found)->isa > isa || !runs((*found)->isa)) ++found;
  return **found;
}

const GradKernels& byte_grad_kernels_for(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512 && has_vnni()) return grad_kernels__avx512vnni;
#endif
  static_cast<void>(isa);
  return grad_kernels__portable_bytes;
}

std::vector<std::string> grad_kernel_names() {
  std::vector<std::string> names;
  for (const GradKernels* kernels : table) {
    if (runs(kernels->isa)) names.emplace_back(isa_name(kernels->isa));
  }
#if defined(__x86_64__)
  if (has(Isa::avx512bf16)) names.emplace_back(EMULATED);
  if (has_vnni()) names.emplace_back(VNNI);
#endif
  names.emplace_back(BYTES);
  return names;
}

const GradKernels* grad_kernels_named(const std::string& name) {
#if defined(__x86_64__)
  if (name == EMULATED && has(Isa::avx512bf16)) return &grad_kernels__amx_emulated;
  if (name == VNNI && has_vnni()) return &grad_kernels__avx512vnni;
#endif
  if (name == BYTES) return &grad_kernels__portable_bytes;
  for (const GradKernels* kernels : table) {
    if (runs(kernels->isa) && name == isa_name(kernels->isa)) return kernels;
  }
  return nullptr;
}

}  // namespace ftbnn
