// Sixteen outputs in one AVX-512 register, two at once.  Include only from *_avx512*.cc.
#pragma once

#ifdef __AVX512BW__

#include <immintrin.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/vector_avx512.h"
#include "linear/layout.h"

namespace quire::linear {
namespace {

struct Avx512Lanes {
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

  // The codes of a group, unsigned: v[j] holds inputs 4 j + (0 ... 3) of each output.
  template <std::uint32_t kBits>
  struct Codes {
    Int v[8];
    void load(const std::byte* from) {
      if constexpr (kBits == 8) {
        for (std::uint32_t j = 0; j < 8; ++j) v[j] = load_bytes(from + j * 64);
        return;
      }
      const Int nibble = _mm512_set1_epi8(15);
      for (std::uint32_t j = 0; j < 4; ++j) {
        const Int both = load_bytes(from + j * 64);
        v[j] = _mm512_and_si512(both, nibble);
        v[j + 4] = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
      }
      if constexpr (kBits == 5) {
        const Int high = load_bytes(from + 256), bit = _mm512_set1_epi8(16);
        for (int j = 0; j < 8; ++j) {
          const Int moved = j < 4 ? _mm512_slli_epi16(high, static_cast<unsigned>(4 - j))
                                  : _mm512_srli_epi16(high, static_cast<unsigned>(j - 4));
          v[j] = _mm512_or_si512(v[j], _mm512_and_si512(moved, bit));
        }
      }
      if constexpr (kBits == 6) {
        const Int pair = _mm512_set1_epi8(48);
        for (int j = 0; j < 8; ++j) {
          const Int high = load_bytes(from + 256 + j / 4 * 64);
          const int shift = 4 - 2 * (j % 4);
          const Int moved = shift >= 0 ? _mm512_slli_epi16(high, static_cast<unsigned>(shift))
                                       : _mm512_srli_epi16(high, static_cast<unsigned>(-shift));
          v[j] = _mm512_or_si512(v[j], _mm512_and_si512(moved, pair));
        }
      }
    }
  };

  // -zero * (sum of the inputs that vectors [kFrom, kTo) cover).
  template <std::uint32_t kZero, std::uint32_t kFrom, std::uint32_t kTo>
  static Int start(const std::byte* record) {
    if constexpr (kZero == 0) return _mm512_setzero_si512();
    const std::byte* sum = record + offsetof(RowRecord, minus_sum);
    const std::byte* low = record + offsetof(RowRecord, minus_low);
    Int covered = all_ints(kTo - kFrom == 8 || kFrom == 4 ? sum : low);
    if constexpr (kFrom == 4) covered = _mm512_sub_epi32(covered, all_ints(low));
    return _mm512_slli_epi32(covered, static_cast<unsigned>(std::countr_zero(kZero)));
  }

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
    finish_record(record, amax / 127.0f, sum, sum_low);
  }

  static void finish_record(std::byte* record, float scale, std::int32_t sum, std::int32_t low) {
    const float scaled = scale * static_cast<float>(sum);
    const std::int32_t minus_sum = -sum, minus_low = -low;
    std::memcpy(record + offsetof(RowRecord, scale), &scale, sizeof scale);
    std::memcpy(record + offsetof(RowRecord, sum), &scaled, sizeof scaled);
    std::memcpy(record + offsetof(RowRecord, minus_sum), &minus_sum, sizeof minus_sum);
    std::memcpy(record + offsetof(RowRecord, minus_low), &minus_low, sizeof minus_low);
  }

  // Products of four inputs each, in pairs of 16 bits that are widened before they overflow.
  template <std::uint32_t kBits, std::uint32_t kZero, std::uint32_t kFrom, std::uint32_t kTo>
  static Int dot(const Codes<kBits>& codes, const std::byte* record) {
    // 255 x 128 x 2 does not fit in 16 bits: codes of 8 bits go as two nibbles.
    constexpr std::uint32_t kRun = kBits <= 4 ? 8 : kBits == 5 ? 4 : kBits == 6 ? 2 : 8;
    const Int ones = _mm512_set1_epi16(1), nibble = _mm512_set1_epi8(15);
    Int sum = start<kZero, kFrom, kTo>(record);
    for (std::uint32_t j = kFrom; j < kTo; j += kRun) {
      Int low = _mm512_setzero_si512(), high = low;
      for (std::uint32_t i = j; i < j + kRun && i < kTo; ++i) {
        const Int row = all_ints(record + 4 * i);
        if constexpr (kBits == 8) {
          const Int top = _mm512_and_si512(_mm512_srli_epi16(codes.v[i], 4), nibble);
          low = _mm512_add_epi16(low,
                                 _mm512_maddubs_epi16(_mm512_and_si512(codes.v[i], nibble), row));
          high = _mm512_add_epi16(high, _mm512_maddubs_epi16(top, row));
        } else {
          low = _mm512_add_epi16(low, _mm512_maddubs_epi16(codes.v[i], row));
        }
      }
      sum = _mm512_add_epi32(sum, _mm512_madd_epi16(low, ones));
      if constexpr (kBits == 8) {
        sum = _mm512_add_epi32(sum, _mm512_madd_epi16(high, _mm512_set1_epi16(16)));
      }
    }
    return sum;
  }
};

}  // namespace
}  // namespace quire::linear

#endif  // __AVX512BW__
