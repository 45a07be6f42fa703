// Goal: the portable 16-bit conversions are IEEE's, and the dispatch offers what it says.
// Method: every half against its formula; rounding against the two neighbours.
#include "kernels/half.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/lane_case.h"

namespace quire::kernels::test {
namespace {

using HalfTest = KernelTest;

TEST_F(HalfTest, EveryHalfHasItsValueAndComesBack) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const std::uint16_t half = static_cast<std::uint16_t>(bits);
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const float mantissa = static_cast<float>(bits & 1023);
    const float value = float_of_half(half);
    EXPECT_EQ(std::signbit(value), (bits & 0x8000) != 0);
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), mantissa != 0);
      const std::uint32_t quiet = mantissa != 0 ? 0x200u : 0u;
      EXPECT_EQ(half_of_float(value), bits | quiet);
      continue;
    }
    const float magnitude =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    EXPECT_EQ(std::fabs(value), magnitude) << bits;
    EXPECT_EQ(half_of_float(value), bits);
  }
}

// No other half is nearer; of two equally near the even one is taken.
TEST_F(HalfTest, RoundsToNearestEven) {
  for (int i = 0; i < 200000; ++i) {
    const float x = std::ldexp(1.0f + static_cast<float>(random() % 8192) * 0x1p-13f,
                               static_cast<int>(random() % 42) - 27);
    const std::uint16_t half = half_of_float(x);
    if (half == 0x7c00) {
      EXPECT_GE(x, 65520.0f);
      continue;
    }
    const float error = std::fabs(float_of_half(half) - x);
    for (const int step : {-1, 1}) {
      if (half == 0 && step < 0) continue;
      const float neighbour = float_of_half(static_cast<std::uint16_t>(half + step));
      if (!std::isfinite(neighbour)) continue;
      EXPECT_LE(error, std::fabs(neighbour - x));
      EXPECT_TRUE(error != std::fabs(neighbour - x) || half % 2 == 0);
    }
  }
}

TEST_F(HalfTest, BrainFloatRoundsToNearestEven) {
  EXPECT_EQ(bfloat_of_float(1.0f), 0x3f80);
  EXPECT_EQ(bfloat_of_float(float_of_bits(0x3f808000u)), 0x3f80);  // tie: even below
  EXPECT_EQ(bfloat_of_float(float_of_bits(0x3f818000u)), 0x3f82);  // tie: even above
  EXPECT_EQ(bfloat_of_float(float_of_bits(0x3f808001u)), 0x3f81);
  EXPECT_EQ(bfloat_of_float(float_of_bits(0x7f7fffffu)), 0x7f80);  // overflow
  EXPECT_EQ(bfloat_of_float(float_of_bits(0x7f800001u)), 0x7fc0);  // NaN stays NaN
  EXPECT_EQ(float_of_bfloat(0xc020), -2.5f);
}

TEST(Dispatch, LevelsAreOrderedAndNamed) {
  EXPECT_TRUE(machine_has(Isa::kScalar));
  EXPECT_EQ(kernels_for(Isa::kScalar).isa, Isa::kScalar);
  for (const Isa limit : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    const Isa found = kernels_for(limit).isa;
    EXPECT_LE(found, limit) << name_of(limit);
    EXPECT_TRUE(machine_has(found));
    EXPECT_EQ(found == limit, machine_has(limit));
    EXPECT_GE(kernels_for(Isa::kAuto).isa, found);
  }
  EXPECT_STREQ(name_of(Isa::kAvx512), "avx512");
  EXPECT_STREQ(name_of(Isa::kAuto), "auto");
}

}  // namespace
}  // namespace quire::kernels::test
