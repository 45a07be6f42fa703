// Sixteen floats in one AVX-512 register.  Include only from *_avx512.cc.
#pragma once

#ifdef __AVX512F__

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 calls the undefined merge operand inside its own intrinsics uninitialised.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/softmax_constants.h"
#include "quire/types.h"

namespace quire::kernels {
namespace {

struct Avx512Vector {
  __m512 v;

  // 6 rows x 4 vectors fill 24 of 32 registers and load 10 times for 24 fma; 8 rows x 2 vectors,
  // for K and V as stored, are 16 chains in flight (2 ports x 4 cycles need 8).
  static constexpr std::uint32_t kConvertedStrip = 6, kDirectStrip = 8, kKeyVectors = 4;
  static constexpr std::uint32_t score_units(std::uint32_t rows) { return rows <= 6 ? 4 : 2; }
  static constexpr std::uint32_t value_vectors(std::uint32_t rows) { return rows <= 6 ? 4 : 2; }

  static Avx512Vector all(float value) { return {_mm512_set1_ps(value)}; }
  static Avx512Vector load(const float* from) { return {_mm512_loadu_ps(from)}; }
  void store(float* to) const { _mm512_storeu_ps(to, v); }

  static Avx512Vector of_bfloats(__m256i bits) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
  }
  template <KvType kType>
  static Avx512Vector load(const std::byte* from) {
    if constexpr (kType == KvType::kF32) {
      return {_mm512_loadu_ps(from)};
    } else {
      const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
      if constexpr (kType == KvType::kF16) {
        return {_mm512_cvtph_ps(bits)};
      } else {
        return of_bfloats(bits);
      }
    }
  }
  // 8 elements from each of two places.
  template <KvType kType>
  static Avx512Vector load_halves(const std::byte* low, const std::byte* high) {
    if constexpr (kType == KvType::kF32) {
      const __m256 a = _mm256_loadu_ps(reinterpret_cast<const float*>(low));
      const __m256 b = _mm256_loadu_ps(reinterpret_cast<const float*>(high));
      return {_mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1)};
    } else {
      const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(low));
      const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(high));
      const __m256i bits = _mm256_set_m128i(b, a);
      if constexpr (kType == KvType::kF16) {
        return {_mm512_cvtph_ps(bits)};
      } else {
        return of_bfloats(bits);
      }
    }
  }
  template <KvType kType>
  void store(std::byte* to) const {
    if constexpr (kType == KvType::kF32) {
      _mm512_storeu_ps(to, v);
    } else if constexpr (kType == KvType::kF16) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                          _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    } else {
      const __m512i bits = _mm512_castps_si512(v);
      const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
      const __m512i rounded =
          _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
      const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
      const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
      const __m512i kept = _mm512_srli_epi32(_mm512_mask_mov_epi32(rounded, nan, quiet), 16);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(kept));
    }
  }
  // Writes the lanes of `mask` next to each other; may write all 16 floats.
  void store_dense(float* to, std::uint32_t mask) const {
    _mm512_storeu_ps(to, _mm512_maskz_compress_ps(static_cast<__mmask16>(mask), v));
  }

  friend Avx512Vector operator+(Avx512Vector a, Avx512Vector b) {
    return {_mm512_add_ps(a.v, b.v)};
  }
  friend Avx512Vector operator-(Avx512Vector a, Avx512Vector b) {
    return {_mm512_sub_ps(a.v, b.v)};
  }
  friend Avx512Vector operator*(Avx512Vector a, Avx512Vector b) {
    return {_mm512_mul_ps(a.v, b.v)};
  }
  friend Avx512Vector operator/(Avx512Vector a, Avx512Vector b) {
    return {_mm512_div_ps(a.v, b.v)};
  }
  static Avx512Vector fma(Avx512Vector a, Avx512Vector b, Avx512Vector c) {
    return {_mm512_fmadd_ps(a.v, b.v, c.v)};
  }
  // a > b ? a : b
  static Avx512Vector max(Avx512Vector a, Avx512Vector b) { return {_mm512_max_ps(a.v, b.v)}; }
  static Avx512Vector sqrt(Avx512Vector a) { return {_mm512_sqrt_ps(a.v)}; }
  static Avx512Vector abs(Avx512Vector a) { return {_mm512_andnot_ps(_mm512_set1_ps(-0.0f), a.v)}; }
  static Avx512Vector with_sign_of(Avx512Vector magnitude, Avx512Vector sign) {
    const __m512 sign_bit = _mm512_set1_ps(-0.0f);
    return {_mm512_or_ps(_mm512_andnot_ps(sign_bit, magnitude.v), _mm512_and_ps(sign_bit, sign.v))};
  }
  // a < b ? yes : no
  static Avx512Vector where_less(Avx512Vector a, Avx512Vector b, Avx512Vector yes,
                                 Avx512Vector no) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
  }
  // x < kExpZero ? 0 : y * 2^n, where n is an integer and shifted = n + kRoundMagic
  static Avx512Vector times_power_or_zero(Avx512Vector y, Avx512Vector n, Avx512Vector,
                                          Avx512Vector x) {
    const __mmask16 some = _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(kExpZero), _CMP_NLT_UQ);
    return {_mm512_maskz_scalef_ps(some, y.v, n.v)};
  }
  // Lane i of 16 sums over i, by a fixed tree: + 8, + 4, + 2, + 1.
  float add_lanes() const {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  // Neighbours change places: lanes 2 i and 2 i + 1.
  Avx512Vector swap_pairs() const { return {_mm512_permute_ps(v, 0xB1)}; }
  // The largest lane; no lane is NaN.
  float max_lanes() const { return _mm512_reduce_max_ps(v); }
  // Adds lane i, rounded to units of 2^-40, to sum[i]; NaN counts as 0.
  void add_units(std::int64_t* sum) const {
    const __m512 w = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), v);
    add_eight(sum, _mm512_castps512_ps256(w));
    add_eight(sum + 8, _mm512_extractf32x8_ps(w, 1));
  }

 private:
  static void add_eight(std::int64_t* sum, __m256 w) {
    const __m512d scaled = _mm512_mul_pd(_mm512_cvtps_pd(w), _mm512_set1_pd(0x1p40));
    const __m512i units = _mm512_cvtpd_epi64(scaled);
    _mm512_storeu_si512(sum, _mm512_add_epi64(_mm512_loadu_si512(sum), units));
  }
};

}  // namespace
}  // namespace quire::kernels

#endif  // __AVX512F__
