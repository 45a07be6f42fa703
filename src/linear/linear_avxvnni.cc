// Linear layers for AVX2 with AVX-VNNI: four products and their sum in one instruction.
#ifdef __x86_64__

#include "linear/lanes_avx2.h"
#include "linear/multiply_impl.h"

namespace quire::linear {
namespace {

struct AvxVnniVectors : Avx2Vectors {
  static Int dot_bytes(Int sum, Int codes, Int row) {
    return _mm256_dpbusd_avx_epi32(sum, codes, row);
  }
};

constexpr Kernels kTable = table_of<DotLanes<AvxVnniVectors>>(Isa::kAvxVnni);

}  // namespace

const Kernels& avxvnni_kernels() {
  return kTable;
}

}  // namespace quire::linear

#endif  // __x86_64__
