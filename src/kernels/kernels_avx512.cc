// Kernels for AVX-512 F, BW, DQ and VL.
#ifdef __x86_64__

#include "kernels/levels.h"
#include "kernels/table_impl.h"
#include "kernels/vector_avx512.h"

namespace quire::kernels {
namespace {

constexpr Kernels kTable = table_of<Avx512Vector>(Isa::kAvx512);

}  // namespace

const Kernels& avx512_kernels() {
  return kTable;
}

}  // namespace quire::kernels

#endif  // __x86_64__
