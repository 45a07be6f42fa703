// Linear layers for AVX2 with AVX-VNNI: four products and their sum in one instruction.
#ifdef __x86_64__

#include "linear/lanes_avx2.h"
#include "linear/multiply_impl.h"

namespace quire::linear {
namespace {

struct AvxVnniLanes : Avx2Lanes {
  template <std::uint32_t kBits, std::uint32_t kZero, std::uint32_t kFrom, std::uint32_t kTo>
  static Int dot(const Codes<kBits>& codes, const std::byte* record) {
    Int sum = start<kZero, kFrom, kTo>(record);
    for (std::uint32_t j = kFrom; j < kTo; ++j) {
      sum = _mm256_dpbusd_avx_epi32(sum, codes.v[j], all_ints(record + 4 * j));
    }
    return sum;
  }
};

constexpr Kernels kTable = table_of<AvxVnniLanes>(Isa::kAvxVnni);

}  // namespace

const Kernels& avxvnni_kernels() {
  return kTable;
}

}  // namespace quire::linear

#endif  // __x86_64__
