// As lanes_avx512.h, with the 8-bit dot product.  Include only from *_avx512vnni.cc and *_amx.cc.
#pragma once

#ifdef __AVX512VNNI__

#include "linear/lanes_avx512.h"

namespace quire::linear {
namespace {

struct Avx512VnniLanes : Avx512Lanes {
  template <std::uint32_t kBits, std::uint32_t kZero, std::uint32_t kFrom, std::uint32_t kTo>
  static Int dot(const Codes<kBits>& codes, const std::byte* record) {
    Int sum = start<kZero, kFrom, kTo>(record);
    for (std::uint32_t j = kFrom; j < kTo; ++j) {
      sum = _mm512_dpbusd_epi32(sum, codes.v[j], all_ints(record + 4 * j));
    }
    return sum;
  }
};

}  // namespace
}  // namespace quire::linear

#endif  // __AVX512VNNI__
