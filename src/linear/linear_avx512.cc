// Linear layers for AVX-512 F, BW, DQ and VL.
#ifdef __x86_64__

#include "linear/lanes_avx512.h"
#include "linear/multiply_impl.h"

namespace quire::linear {
namespace {

constexpr Kernels kTable = table_of<Avx512Lanes>(Isa::kAvx512);

}  // namespace

const Kernels& avx512_kernels() {
  return kTable;
}

}  // namespace quire::linear

#endif  // __x86_64__
