// Sixteen outputs in one AVX-512 register, two at once.  Include only from *_avx512*.cc.
#pragma once

#ifdef __AVX512BW__

#include <immintrin.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/vector_avx512.h"
#include "linear/code_lanes.h"
#include "linear/levels.h"

namespace quire::linear {
namespace {

struct Avx512Vectors {
  using Int = __m512i;
  using Float = __m512;
  using Vector = kernels::Avx512Vector;
  static constexpr std::uint32_t kCount = 16, kUnits = 2;

  static Float load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, Float v) { _mm512_storeu_ps(to, v); }
  static Float all_of(const std::byte* from) {
    float value;
    std::memcpy(&value, from, sizeof value);
    return _mm512_set1_ps(value);
  }
  static Int all_ints(const std::byte* from) {
    std::int32_t value;
    std::memcpy(&value, from, sizeof value);
    return _mm512_set1_epi32(value);
  }
  static Float load_halves(const std::byte* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static Float load_unsigned(const std::byte* from) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  }
  static Float load_signed(const std::byte* from) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  }
  static Float times(Float a, Float b) { return _mm512_mul_ps(a, b); }
  static Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
  static Float minus(Float a) {
    return _mm512_castsi512_ps(
        _mm512_xor_si512(_mm512_castps_si512(a), _mm512_set1_epi32(INT32_MIN)));
  }
  static Float to_float(Int a) { return _mm512_cvtepi32_ps(a); }

  static Int load_bytes(const std::byte* from) { return _mm512_loadu_si512(from); }

  static Int zero() { return _mm512_setzero_si512(); }
  static Int all_bytes(char value) { return _mm512_set1_epi8(value); }
  static Int all_words(short value) { return _mm512_set1_epi16(value); }
  static Int both(Int a, Int b) { return _mm512_and_si512(a, b); }
  static Int either(Int a, Int b) { return _mm512_or_si512(a, b); }
  static Int left(Int a, int by) { return _mm512_slli_epi16(a, static_cast<unsigned>(by)); }
  static Int right(Int a, int by) { return _mm512_srli_epi16(a, static_cast<unsigned>(by)); }
  static Int left_wide(Int a, int by) { return _mm512_slli_epi32(a, static_cast<unsigned>(by)); }
  static Int add_words(Int a, Int b) { return _mm512_add_epi16(a, b); }
  static Int add_ints(Int a, Int b) { return _mm512_add_epi32(a, b); }
  static Int minus_ints(Int a, Int b) { return _mm512_sub_epi32(a, b); }
  static Int pairs(Int codes, Int row) { return _mm512_maddubs_epi16(codes, row); }
  static Int wide(Int a, Int b) { return _mm512_madd_epi16(a, b); }

  static void quantize_group(const float* x, std::byte* record) {
    const __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + 16);
    const __m512i magnitude = _mm512_set1_epi32(INT32_MAX);
    const std::int32_t most = _mm512_reduce_max_epi32(
        _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(a), magnitude),
                         _mm512_and_si512(_mm512_castps_si512(b), magnitude)));
    const float amax = std::bit_cast<float>(most);
    const bool finite = most < 0x7f800000;
    const __m512 inverse = _mm512_set1_ps(finite && most > 0 ? 127.0f / amax : 0);
    const __mmask16 keep = finite ? 0xffff : 0;
    const __m512i low = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(a, inverse));
    const __m512i high = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(b, inverse));
    const __m512i floor = _mm512_set1_epi32(-127);
    const __m128i codes_low = _mm512_cvtsepi32_epi8(_mm512_max_epi32(low, floor));
    const __m128i codes_high = _mm512_cvtsepi32_epi8(_mm512_max_epi32(high, floor));
    auto* to = reinterpret_cast<__m128i*>(record);
    _mm_storeu_si128(to, codes_low);
    _mm_storeu_si128(to + 1, codes_high);
    const std::int32_t sum_low = _mm512_reduce_add_epi32(_mm512_cvtepi8_epi32(codes_low));
    const std::int32_t sum = sum_low + _mm512_reduce_add_epi32(_mm512_cvtepi8_epi32(codes_high));
    write_sums(record, amax / 127.0f, sum, sum_low);
  }
};

using Avx512Lanes = PairLanes<Avx512Vectors>;

}  // namespace
}  // namespace quire::linear

#endif  // __AVX512BW__
