// Eight outputs in one AVX2 register.  Include only from *_avx2.cc and *_avxvnni.cc.
#pragma once

#ifdef __AVX2__

#include <immintrin.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/vector_avx2.h"
#include "linear/layout.h"

namespace quire::linear {
namespace {

struct Avx2Lanes {
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

  // The codes of a group, unsigned: v[j] holds inputs 4 j + (0 ... 3) of each output.
  template <std::uint32_t kBits>
  struct Codes {
    Int v[8];
    void load(const std::byte* from) {
      if constexpr (kBits == 8) {
        for (std::uint32_t j = 0; j < 8; ++j) v[j] = load_bytes(from + j * 64);
        return;
      }
      const Int nibble = _mm256_set1_epi8(15);
      for (std::uint32_t j = 0; j < 4; ++j) {
        const Int both = load_bytes(from + j * 64);
        v[j] = _mm256_and_si256(both, nibble);
        v[j + 4] = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
      }
      if constexpr (kBits == 5) {
        const Int high = load_bytes(from + 256), bit = _mm256_set1_epi8(16);
        for (int j = 0; j < 8; ++j) {
          const Int moved = j < 4 ? _mm256_slli_epi16(high, 4 - j) : _mm256_srli_epi16(high, j - 4);
          v[j] = _mm256_or_si256(v[j], _mm256_and_si256(moved, bit));
        }
      }
      if constexpr (kBits == 6) {
        const Int pair = _mm256_set1_epi8(48);
        for (int j = 0; j < 8; ++j) {
          const Int high = load_bytes(from + 256 + j / 4 * 64);
          const int shift = 4 - 2 * (j % 4);
          const Int moved =
              shift >= 0 ? _mm256_slli_epi16(high, shift) : _mm256_srli_epi16(high, -shift);
          v[j] = _mm256_or_si256(v[j], _mm256_and_si256(moved, pair));
        }
      }
    }
  };

  // -zero * (sum of the inputs that vectors [kFrom, kTo) cover).
  template <std::uint32_t kZero, std::uint32_t kFrom, std::uint32_t kTo>
  static Int start(const std::byte* record) {
    if constexpr (kZero == 0) return _mm256_setzero_si256();
    const std::byte* sum = record + offsetof(RowRecord, minus_sum);
    const std::byte* low = record + offsetof(RowRecord, minus_low);
    Int covered = all_ints(kTo - kFrom == 8 || kFrom == 4 ? sum : low);
    if constexpr (kFrom == 4) covered = _mm256_sub_epi32(covered, all_ints(low));
    return _mm256_slli_epi32(covered, std::countr_zero(kZero));
  }

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
    const float scale = amax / 127.0f, scaled = scale * static_cast<float>(sum);
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
    const Int ones = _mm256_set1_epi16(1), nibble = _mm256_set1_epi8(15);
    Int sum = start<kZero, kFrom, kTo>(record);
    for (std::uint32_t j = kFrom; j < kTo; j += kRun) {
      Int low = _mm256_setzero_si256(), high = low;
      for (std::uint32_t i = j; i < j + kRun && i < kTo; ++i) {
        const Int row = all_ints(record + 4 * i);
        if constexpr (kBits == 8) {
          const Int top = _mm256_and_si256(_mm256_srli_epi16(codes.v[i], 4), nibble);
          low = _mm256_add_epi16(low,
                                 _mm256_maddubs_epi16(_mm256_and_si256(codes.v[i], nibble), row));
          high = _mm256_add_epi16(high, _mm256_maddubs_epi16(top, row));
        } else {
          low = _mm256_add_epi16(low, _mm256_maddubs_epi16(codes.v[i], row));
        }
      }
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(low, ones));
      if constexpr (kBits == 8) {
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(high, _mm256_set1_epi16(16)));
      }
    }
    return sum;
  }
};

}  // namespace
}  // namespace quire::linear

#endif  // __AVX2__
