// Sixteen floats in two AVX2 registers.  Include only from *_avx2.cc.
#pragma once

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/softmax_constants.h"
#include "quire/types.h"

namespace quire::kernels {
namespace {

// For each mask of 8 lanes, the lanes it holds, ascending: the indices of a permutation.
struct DenseLanes {
  std::uint8_t lane[256][8];
};

constexpr DenseLanes make_dense_lanes() {
  DenseLanes table{};
  for (unsigned mask = 0; mask < 256; ++mask) {
    unsigned count = 0;
    for (unsigned i = 0; i < 8; ++i) {
      if (mask >> i & 1) table.lane[mask][count++] = static_cast<std::uint8_t>(i);
    }
  }
  return table;
}

constexpr DenseLanes kDenseLanes = make_dense_lanes();

struct Avx2Vector {
  __m256 a, b;  // lanes [0, 8) and [8, 16)

  // 6 rows x 1 vector and 3 rows x 2 are 12 of 16 registers.
  static constexpr std::uint32_t kConvertedStrip = 6, kDirectStrip = 6, kKeyVectors = 1;
  static constexpr std::uint32_t value_vectors(std::uint32_t rows) { return rows <= 3 ? 2 : 1; }
  static constexpr std::uint32_t score_units(std::uint32_t rows) {
    return rows == 1 ? 4 : rows <= 3 ? 2 : 1;
  }

  static Avx2Vector all(float value) {
    const __m256 v = _mm256_set1_ps(value);
    return {v, v};
  }
  static Avx2Vector load(const float* from) {
    return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
  }
  void store(float* to) const {
    _mm256_storeu_ps(to, a);
    _mm256_storeu_ps(to + 8, b);
  }

  template <KvType kType>
  static __m256 load_eight(const std::byte* from) {
    if constexpr (kType == KvType::kF32) {
      return _mm256_loadu_ps(reinterpret_cast<const float*>(from));
    } else {
      const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      if constexpr (kType == KvType::kF16) {
        return _mm256_cvtph_ps(bits);
      } else {
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
      }
    }
  }
  template <KvType kType>
  static Avx2Vector load(const std::byte* from) {
    return {load_eight<kType>(from), load_eight<kType>(from + 8 * bytes_of(kType))};
  }
  // 8 elements from each of two places.
  template <KvType kType>
  static Avx2Vector load_halves(const std::byte* low, const std::byte* high) {
    return {load_eight<kType>(low), load_eight<kType>(high)};
  }
  template <KvType kType>
  void store(std::byte* to) const {
    store_eight<kType>(to, a);
    store_eight<kType>(to + 8 * bytes_of(kType), b);
  }
  // Writes the lanes of `mask` next to each other; may write all 16 floats.
  void store_dense(float* to, std::uint32_t mask) const {
    const std::uint32_t low = mask & 255u, high = mask >> 8 & 255u;
    _mm256_storeu_ps(to, dense(a, low));
    _mm256_storeu_ps(to + __builtin_popcount(low), dense(b, high));
  }

  friend Avx2Vector operator+(Avx2Vector x, Avx2Vector y) {
    return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
  }
  friend Avx2Vector operator-(Avx2Vector x, Avx2Vector y) {
    return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
  }
  friend Avx2Vector operator*(Avx2Vector x, Avx2Vector y) {
    return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
  }
  friend Avx2Vector operator/(Avx2Vector x, Avx2Vector y) {
    return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
  }
  static Avx2Vector fma(Avx2Vector x, Avx2Vector y, Avx2Vector z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
  }
  // x > y ? x : y
  static Avx2Vector max(Avx2Vector x, Avx2Vector y) {
    return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
  }
  static Avx2Vector sqrt(Avx2Vector x) { return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
  static Avx2Vector abs(Avx2Vector x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
  }
  static Avx2Vector with_sign_of(Avx2Vector magnitude, Avx2Vector sign) {
    const __m256 bit = _mm256_set1_ps(-0.0f);
    return {_mm256_or_ps(_mm256_andnot_ps(bit, magnitude.a), _mm256_and_ps(bit, sign.a)),
            _mm256_or_ps(_mm256_andnot_ps(bit, magnitude.b), _mm256_and_ps(bit, sign.b))};
  }
  // x < y ? yes : no
  static Avx2Vector where_less(Avx2Vector x, Avx2Vector y, Avx2Vector yes, Avx2Vector no) {
    return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
            _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
  }
  // x < kExpZero ? 0 : y * 2^n, where n is an integer and shifted = n + kRoundMagic
  static Avx2Vector times_power_or_zero(Avx2Vector y, Avx2Vector, Avx2Vector shifted,
                                        Avx2Vector x) {
    return {times_power_or_zero(y.a, shifted.a, x.a), times_power_or_zero(y.b, shifted.b, x.b)};
  }
  // Lane i of 16 sums over i, by a fixed tree: + 8, + 4, + 2, + 1.
  float add_lanes() const {
    const __m256 eight = _mm256_add_ps(a, b);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  // Neighbours change places: lanes 2 i and 2 i + 1.
  Avx2Vector swap_pairs() const { return {_mm256_permute_ps(a, 0xB1), _mm256_permute_ps(b, 0xB1)}; }
  // The largest lane; no lane is NaN.
  float max_lanes() const {
    const __m256 eight = _mm256_max_ps(a, b);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
  // Adds lane i, rounded to units of 2^-40, to sum[i]; NaN counts as 0.
  void add_units(std::int64_t* sum) const {
    add_four(sum, _mm256_castps256_ps128(a));
    add_four(sum + 4, _mm256_extractf128_ps(a, 1));
    add_four(sum + 8, _mm256_castps256_ps128(b));
    add_four(sum + 12, _mm256_extractf128_ps(b, 1));
  }

 private:
  static __m256 dense(__m256 v, std::uint32_t mask) {
    const __m128i lanes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kDenseLanes.lane[mask]));
    return _mm256_permutevar8x32_ps(v, _mm256_cvtepu8_epi32(lanes));
  }
  static __m256 times_power_or_zero(__m256 y, __m256 shifted, __m256 x) {
    const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
    const __m256i power = _mm256_add_epi32(exponent, _mm256_set1_epi32(kOneBits));
    const __m256 some = _mm256_cmp_ps(x, _mm256_set1_ps(kExpZero), _CMP_NLT_UQ);
    return _mm256_and_ps(some, _mm256_mul_ps(y, _mm256_castsi256_ps(power)));
  }
  template <KvType kType>
  static void store_eight(std::byte* to, __m256 v) {
    if constexpr (kType == KvType::kF32) {
      _mm256_storeu_ps(reinterpret_cast<float*>(to), v);
    } else if constexpr (kType == KvType::kF16) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                       _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    } else {
      const __m256i bits = _mm256_castps_si256(v);
      const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
      const __m256i rounded =
          _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
      const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
      const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
      const __m256i kept = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
      _mm_storeu_si128(
          reinterpret_cast<__m128i*>(to),
          _mm_packus_epi32(_mm256_castsi256_si128(kept), _mm256_extracti128_si256(kept, 1)));
    }
  }
  // Below 2^51, adding 1.5 * 2^52 leaves the nearest integer in the low bits.
  static void add_four(std::int64_t* sum, __m128 w) {
    const __m128 number = _mm_and_ps(w, _mm_cmpord_ps(w, w));
    const __m256d magic = _mm256_set1_pd(0x1.8p52);
    const __m256d scaled = _mm256_mul_pd(_mm256_cvtps_pd(number), _mm256_set1_pd(0x1p40));
    const __m256i units = _mm256_sub_epi64(_mm256_castpd_si256(_mm256_add_pd(scaled, magic)),
                                           _mm256_castpd_si256(magic));
    __m256i* to = reinterpret_cast<__m256i*>(sum);
    _mm256_storeu_si256(to, _mm256_add_epi64(_mm256_loadu_si256(to), units));
  }
};

}  // namespace
}  // namespace quire::kernels

#endif  // AVX2, FMA, F16C
