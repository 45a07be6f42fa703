// Linear layers for AVX-512 with VNNI: four products and their sum in one instruction.
#ifdef __x86_64__

#include "linear/lanes_avx512vnni.h"
#include "linear/multiply_impl.h"

namespace quire::linear {
namespace {

constexpr Kernels kTable = table_of<Avx512VnniLanes>(Isa::kAvx512Vnni);

}  // namespace

const Kernels& avx512vnni_kernels() {
  return kTable;
}

}  // namespace quire::linear

#endif  // __x86_64__
