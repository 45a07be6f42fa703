// Sixteen floats without vector instructions: what every machine can run.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/half.h"
#include "kernels/softmax_constants.h"

namespace quire::kernels {
namespace {

struct ScalarVector {
  float x[16];

  // Register blocks: rows x units of 16 tokens, rows x vectors of 16 values.
  static constexpr std::uint32_t kConvertedStrip = 6, kDirectStrip = 6, kKeyVectors = 1;
  static constexpr std::uint32_t value_vectors(std::uint32_t) { return 1; }
  static constexpr std::uint32_t score_units(std::uint32_t) { return 1; }

  template <typename F>
  static ScalarVector each(F f) {
    ScalarVector r;
    for (int i = 0; i < 16; ++i) r.x[i] = f(i);
    return r;
  }
  static ScalarVector all(float value) {
    return each([&](int) { return value; });
  }
  static ScalarVector load(const float* from) {
    return each([&](int i) { return from[i]; });
  }
  void store(float* to) const {
    for (int i = 0; i < 16; ++i) to[i] = x[i];
  }

  template <KvType kType>
  static ScalarVector load(const std::byte* from) {
    return each([&](int i) { return load_element(from, kType, static_cast<std::size_t>(i)); });
  }
  // 8 elements from each of two places.
  template <KvType kType>
  static ScalarVector load_halves(const std::byte* low, const std::byte* high) {
    return each([&](int i) {
      return load_element(i < 8 ? low : high, kType, static_cast<std::size_t>(i % 8));
    });
  }
  template <KvType kType>
  void store(std::byte* to) const {
    for (std::size_t i = 0; i < 16; ++i) store_element(to, kType, i, x[i]);
  }
  // Writes the lanes of `mask` next to each other; may write all 16 floats.
  void store_dense(float* to, std::uint32_t mask) const {
    for (int i = 0; i < 16; ++i) {
      if (mask >> i & 1) *to++ = x[i];
    }
  }

  friend ScalarVector operator+(const ScalarVector& a, const ScalarVector& b) {
    return each([&](int i) { return a.x[i] + b.x[i]; });
  }
  friend ScalarVector operator-(const ScalarVector& a, const ScalarVector& b) {
    return each([&](int i) { return a.x[i] - b.x[i]; });
  }
  friend ScalarVector operator*(const ScalarVector& a, const ScalarVector& b) {
    return each([&](int i) { return a.x[i] * b.x[i]; });
  }
  friend ScalarVector operator/(const ScalarVector& a, const ScalarVector& b) {
    return each([&](int i) { return a.x[i] / b.x[i]; });
  }
  static ScalarVector fma(const ScalarVector& a, const ScalarVector& b, const ScalarVector& c) {
    return each([&](int i) { return __builtin_fmaf(a.x[i], b.x[i], c.x[i]); });
  }
  // a > b ? a : b
  static ScalarVector max(const ScalarVector& a, const ScalarVector& b) {
    return each([&](int i) { return a.x[i] > b.x[i] ? a.x[i] : b.x[i]; });
  }
  static ScalarVector sqrt(const ScalarVector& a) {
    return each([&](int i) { return __builtin_sqrtf(a.x[i]); });
  }
  static ScalarVector abs(const ScalarVector& a) {
    return each([&](int i) { return float_of_bits(bits_of_float(a.x[i]) & 0x7fffffffu); });
  }
  static ScalarVector with_sign_of(const ScalarVector& magnitude, const ScalarVector& sign) {
    return each([&](int i) {
      return float_of_bits((bits_of_float(magnitude.x[i]) & 0x7fffffffu) |
                           (bits_of_float(sign.x[i]) & 0x80000000u));
    });
  }
  // a < b ? yes : no
  static ScalarVector where_less(const ScalarVector& a, const ScalarVector& b,
                                 const ScalarVector& yes, const ScalarVector& no) {
    return each([&](int i) { return a.x[i] < b.x[i] ? yes.x[i] : no.x[i]; });
  }
  // x < kExpZero ? 0 : y * 2^n, where n is an integer and shifted = n + kRoundMagic
  static ScalarVector times_power_or_zero(const ScalarVector& y, const ScalarVector&,
                                          const ScalarVector& shifted, const ScalarVector& x) {
    return each([&](int i) {
      if (x.x[i] < kExpZero) return 0.0f;
      return y.x[i] * float_of_bits((bits_of_float(shifted.x[i]) << 23) + kOneBits);
    });
  }
  // Lane i of 16 sums over i, by a fixed tree: + 8, + 4, + 2, + 1.
  float add_lanes() const {
    ScalarVector sum = *this;
    for (int step = 8; step > 0; step /= 2) {
      for (int i = 0; i < step; ++i) sum.x[i] += sum.x[i + step];
    }
    return sum.x[0];
  }
  // Neighbours change places: lanes 2 i and 2 i + 1.
  ScalarVector swap_pairs() const {
    return each([&](int i) { return x[i ^ 1]; });
  }
  // The largest lane, NaN passed over.
  float max_lanes() const {
    float most = x[0];
    for (int i = 1; i < 16; ++i) most = x[i] > most ? x[i] : most;
    return most;
  }
  // Adds lane i, rounded to units of 2^-40, to sum[i]; NaN counts as 0.
  void add_units(std::int64_t* sum) const {
    for (int i = 0; i < 16; ++i) {
      if (x[i] == x[i]) sum[i] += __builtin_llrint(static_cast<double>(x[i]) * 0x1p40);
    }
  }
};

}  // namespace
}  // namespace quire::kernels
