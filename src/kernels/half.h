// 16-bit floats in portable integer code, bit for bit what F16C does: round to nearest even,
// overflow to infinity, subnormals kept, NaN quieted with its payload's high bits.
//
// Everything here is static: files compiled for different instruction sets include it, and an
// inline function with external linkage would let the linker keep the wrong one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quire/types.h"

namespace quire::kernels {

[[maybe_unused]] static inline std::uint32_t bits_of_float(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

[[maybe_unused]] static inline float float_of_bits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

[[maybe_unused]] static inline float float_of_half(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 31u, mantissa = half & 1023u;
  if (exponent == 31) {
    const std::uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return float_of_bits(sign | 0x7f800000u | mantissa << 13 | quiet);
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // exact
    return float_of_bits(bits_of_float(magnitude) | sign);
  }
  return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

[[maybe_unused]] static inline std::uint16_t half_of_float(float value) {
  const std::uint32_t bits = bits_of_float(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  std::uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | (magnitude >> 13 & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520 rounds up to infinity
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: count units of 2^-24, the ulp of 0.5
    half = bits_of_float(float_of_bits(magnitude) + 0.5f) - bits_of_float(0.5f);
  } else {
    half = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

[[maybe_unused]] static inline float float_of_bfloat(std::uint16_t value) {
  return float_of_bits(static_cast<std::uint32_t>(value) << 16);
}

[[maybe_unused]] static inline std::uint16_t bfloat_of_float(float value) {
  const std::uint32_t bits = bits_of_float(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// Element `index` of an array of `type`.
[[maybe_unused]] static inline float load_element(const std::byte* array, KvType type,
                                                  std::size_t index) {
  if (type == KvType::kF32) {
    float value;
    std::memcpy(&value, array + index * 4, 4);
    return value;
  }
  std::uint16_t value;
  std::memcpy(&value, array + index * 2, 2);
  return type == KvType::kF16 ? float_of_half(value) : float_of_bfloat(value);
}

[[maybe_unused]] static inline void store_element(std::byte* array, KvType type, std::size_t index,
                                                  float value) {
  if (type == KvType::kF32) {
    std::memcpy(array + index * 4, &value, 4);
    return;
  }
  const std::uint16_t stored = type == KvType::kF16 ? half_of_float(value) : bfloat_of_float(value);
  std::memcpy(array + index * 2, &stored, 2);
}

}  // namespace quire::kernels
