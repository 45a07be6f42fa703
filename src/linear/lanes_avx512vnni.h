// As lanes_avx512.h, with the 8-bit dot product.  Include only from *_avx512vnni.cc and *_amx.cc.
#pragma once

#ifdef __AVX512VNNI__

#include "linear/lanes_avx512.h"

namespace quire::linear {
namespace {

struct Avx512VnniVectors : Avx512Vectors {
  static Int dot_bytes(Int sum, Int codes, Int row) { return _mm512_dpbusd_epi32(sum, codes, row); }
};

using Avx512VnniLanes = DotLanes<Avx512VnniVectors>;

}  // namespace
}  // namespace quire::linear

#endif  // __AVX512VNNI__
