// Kernels for AVX2, FMA and F16C.
#ifdef __x86_64__

#include "kernels/levels.h"
#include "kernels/table_impl.h"
#include "kernels/vector_avx2.h"

namespace quire::kernels {
namespace {

constexpr Kernels kTable = table_of<Avx2Vector>(Isa::kAvx2);

}  // namespace

const Kernels& avx2_kernels() {
  return kTable;
}

}  // namespace quire::kernels

#endif  // __x86_64__
