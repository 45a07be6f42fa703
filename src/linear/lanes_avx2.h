// Eight outputs in one AVX2 register.  Include only from *_avx2.cc and *_avxvnni.cc.
#pragma once

#ifdef __AVX2__

#include <immintrin.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/vector_avx2.h"
#include "linear/code_lanes.h"
#include "linear/levels.h"

namespace quire::linear {
namespace {

struct Avx2Vectors {
  using Int = __m256i;
  using Float = __m256;
  using Vector = kernels::Avx2Vector;
  static constexpr std::uint32_t kCount = 8, kUnits = 1;

  static Float load(const float* from) { return _mm256_loadu_ps(from); }
  static void store(float* to, Float v) { _mm256_storeu_ps(to, v); }
  static Float all_of(const std::byte* from) {
    float value;
    std::memcpy(&value, from, sizeof value);
    return _mm256_set1_ps(value);
  }
  static Int all_ints(const std::byte* from) {
    std::int32_t value;
    std::memcpy(&value, from, sizeof value);
    return _mm256_set1_epi32(value);
  }
  static Float load_halves(const std::byte* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static Float load_unsigned(const std::byte* from) {
    return _mm256_cvtepi32_ps(
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
  }
  static Float load_signed(const std::byte* from) {
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
  }
  static Float times(Float a, Float b) { return _mm256_mul_ps(a, b); }
  static Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
  static Float minus(Float a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
  static Float to_float(Int a) { return _mm256_cvtepi32_ps(a); }

  static Int load_bytes(const std::byte* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }

  static Int zero() { return _mm256_setzero_si256(); }
  static Int all_bytes(char value) { return _mm256_set1_epi8(value); }
  static Int all_words(short value) { return _mm256_set1_epi16(value); }
  static Int both(Int a, Int b) { return _mm256_and_si256(a, b); }
  static Int either(Int a, Int b) { return _mm256_or_si256(a, b); }
  static Int left(Int a, int by) { return _mm256_slli_epi16(a, by); }
  static Int right(Int a, int by) { return _mm256_srli_epi16(a, by); }
  static Int left_wide(Int a, int by) { return _mm256_slli_epi32(a, by); }
  static Int add_words(Int a, Int b) { return _mm256_add_epi16(a, b); }
  static Int add_ints(Int a, Int b) { return _mm256_add_epi32(a, b); }
  static Int minus_ints(Int a, Int b) { return _mm256_sub_epi32(a, b); }
  static Int pairs(Int codes, Int row) { return _mm256_maddubs_epi16(codes, row); }
  static Int wide(Int a, Int b) { return _mm256_madd_epi16(a, b); }

  static std::int32_t largest(Int a) {
    __m128i b = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    b = _mm_max_epi32(b, _mm_shuffle_epi32(b, 0x4e));
    b = _mm_max_epi32(b, _mm_shuffle_epi32(b, 0xb1));
    return _mm_cvtsi128_si32(b);
  }
  static std::int32_t total(Int a) {
    __m128i b = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    b = _mm_add_epi32(b, _mm_shuffle_epi32(b, 0x4e));
    b = _mm_add_epi32(b, _mm_shuffle_epi32(b, 0xb1));
    return _mm_cvtsi128_si32(b);
  }

  static void quantize_group(const float* x, std::byte* record) {
    const Int magnitude = _mm256_set1_epi32(INT32_MAX);
    __m256 value[4];
    Int most_of = _mm256_setzero_si256();
    for (std::uint32_t i = 0; i < 4; ++i) {
      value[i] = _mm256_loadu_ps(x + 8 * i);
      most_of =
          _mm256_max_epi32(most_of, _mm256_and_si256(_mm256_castps_si256(value[i]), magnitude));
    }
    const std::int32_t most = largest(most_of);
    const float amax = std::bit_cast<float>(most);
    const bool finite = most < 0x7f800000;
    const __m256 inverse = _mm256_set1_ps(finite && most > 0 ? 127.0f / amax : 0);
    const Int keep = _mm256_set1_epi32(finite ? -1 : 0);
    Int code[4];
    for (std::uint32_t i = 0; i < 4; ++i) {
      code[i] = _mm256_and_si256(_mm256_cvtps_epi32(_mm256_mul_ps(value[i], inverse)), keep);
    }
    const Int floor = _mm256_set1_epi16(-127), order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const Int a = _mm256_max_epi16(_mm256_packs_epi32(code[0], code[1]), floor);
    const Int b = _mm256_max_epi16(_mm256_packs_epi32(code[2], code[3]), floor);
    const Int codes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), order);
    _mm256_storeu_si256(reinterpret_cast<Int*>(record), codes);
    const Int ones = _mm256_set1_epi16(1);
    const std::int32_t low = total(_mm256_madd_epi16(a, ones));
    const std::int32_t sum = low + total(_mm256_madd_epi16(b, ones));
    write_sums(record, amax / 127.0f, sum, low);
  }
};

using Avx2Lanes = PairLanes<Avx2Vectors>;

}  // namespace
}  // namespace quire::linear

#endif  // __AVX2__
