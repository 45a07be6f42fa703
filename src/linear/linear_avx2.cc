// Linear layers for AVX2 with FMA and F16C.
#ifdef __x86_64__

#include "linear/lanes_avx2.h"
#include "linear/multiply_impl.h"

namespace quire::linear {
namespace {

constexpr Kernels kTable = table_of<Avx2Lanes>(Isa::kAvx2);

}  // namespace

const Kernels& avx2_kernels() {
  return kTable;
}

}  // namespace quire::linear

#endif  // __x86_64__
