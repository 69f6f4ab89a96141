#include <algorithm>
#include <cstring>

#include "kernels/conv_grad/conv_grad.h"

namespace ftbnn {

extern const GradKernels grad_kernels__avx512bf16;
extern const GradKernels grad_kernels__avx512;
extern const GradKernels grad_kernels__avx2;
extern const GradKernels grad_kernels__portable;

namespace {

// Best first; portable is last and runs anywhere.
constexpr const GradKernels* table[] = {
#if defined(__x86_64__)
    &grad_kernels__avx512bf16,
    &grad_kernels__avx512,
    &grad_kernels__avx2,
#endif
    &grad_kernels__portable,
};

}  // namespace

const GradKernels& grad_kernels_for(Isa isa) {
  const GradKernels* const* found = table;
  while ((*found)->isa > isa) ++found;
  return **found;
}

std::vector<std::string> grad_kernel_names() {
  std::vector<std::string> names;
  for (const Isa isa : cpu().isas) {
    if (grad_kernels_for(isa).isa == isa) names.emplace_back(isa_name(isa));
  }
  return names;
}

const GradKernels* grad_kernels_named(const std::string& name) {
  for (const Isa isa : cpu().isas) {
    if (name == isa_name(isa)) return &grad_kernels_for(isa);
  }
  return nullptr;
}

}  // namespace ftbnn
