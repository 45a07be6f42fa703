// Goal: linear layers give a row the same bits on every instruction set, for any number of rows
// beside it and any split of the outputs, and compute what the file's codes stand for.
// Method: random panels of every format (any bytes are codes; the scales are drawn); every level of
// the machine against the scalar twin with memcmp, first n rows of many against the same rows
// alone; the sums against f64 products of unpack_output().

#include "linear/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/half.h"
#include "kernels/kernels.h"
#include "support/seed.h"

namespace quire::linear {
namespace {

constexpr Format kAll[] = {Format::kQ4_0, Format::kQ4_1, Format::kQ5_0, Format::kQ5_1,
                           Format::kQ8_0, Format::kQ4_K, Format::kQ5_K, Format::kQ6_K};
constexpr std::uint32_t kInputs = 768, kOutputs = 16 * 5 - 3;
constexpr std::uint32_t kMost = 512;

std::vector<Isa> levels() {
  std::vector<Isa> found;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512, Isa::kAvx512Vnni, Isa::kAmx}) {
    if (quire::kernels::machine_has(isa)) found.push_back(isa);
  }
  return found;
}

class LinearTest : public testing::TestWithParam<Format> {
 protected:
  LinearTest() : seed_(test::seed()), random_(seed_) {
    std::vector<std::byte> source(kOutputs * source_bytes(GetParam(), kInputs));
    for (std::byte& byte : source) byte = static_cast<std::byte>(random_() & 255);
    draw_scales(source);
    packed_.resize(matrix_bytes(GetParam(), kInputs, kOutputs) + 64);
    std::byte* data = packed_.data() + (64 - reinterpret_cast<std::uintptr_t>(packed_.data()) % 64);
    for (std::uint32_t p = 0; p < panels(kOutputs); ++p) {
      pack_panel(GetParam(), source.data(), kInputs, kOutputs, p, data);
    }
    weight_ = {.data = data, .format = GetParam(), .inputs = kInputs, .outputs = kOutputs};
    std::normal_distribution<float> normal(0, 1);
    x_.resize(std::size_t{kMost} * kInputs);
    for (float& value : x_) value = normal(random_) * std::exp2(normal(random_));
    std::fill_n(x_.begin() + 64, 32, 0.0f);  // a group without a largest value
    bias_.resize(kOutputs);
    for (float& value : bias_) value = normal(random_);
  }

  // Random bytes would make scales infinite or NaN: the f16 fields of each block get small values.
  void draw_scales(std::vector<std::byte>& source) {
    const std::size_t block = source_bytes(GetParam(), row_inputs(GetParam()));
    const bool two = GetParam() != Format::kQ4_0 && GetParam() != Format::kQ5_0 &&
                     GetParam() != Format::kQ8_0 && GetParam() != Format::kQ6_K;
    std::normal_distribution<float> normal(0, 0.01f);
    for (std::size_t at = 0; at < source.size(); at += block) {
      std::byte* scales = source.data() + at + (GetParam() == Format::kQ6_K ? 208 : 0);
      for (int i = 0; i < (two ? 2 : 1); ++i) {
        const std::uint16_t half = kernels::half_of_float(normal(random_));
        std::memcpy(scales + 2 * i, &half, sizeof half);
      }
    }
  }

  std::vector<float> product(Isa isa, std::uint32_t rows, std::uint32_t parts = 1) {
    EXPECT_EQ(kernels_for(isa).isa, isa);
    return product(kernels_for(isa), rows, parts);
  }
  std::vector<float> product(const Kernels& kernels, std::uint32_t rows, std::uint32_t parts) {
    std::vector<std::byte> records(rows_bytes(kernels, rows, kInputs));
    std::vector<float> out(std::size_t{rows} * kOutputs, 77);
    for (std::uint32_t part = 0; part < parts; ++part) {
      kernels.quantize(x_.data(), rows, kInputs, rows * part / parts, rows * (part + 1) / parts,
                       records.data());
    }
    const std::uint32_t all = panels(kOutputs);
    for (std::uint32_t part = 0; part < parts; ++part) {
      kernels.multiply(weight_, bias_.data(), nullptr, records.data(), rows, all * part / parts,
                       all * (part + 1) / parts, out.data());
    }
    return out;
  }

  std::uint64_t seed_;
  std::mt19937_64 random_;
  std::vector<std::byte> packed_;
  Matrix weight_;
  std::vector<float> x_, bias_;
};

TEST_P(LinearTest, EveryLevelHasTheBitsOfTheScalarTwin) {
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed_);
  const std::vector<float> want = product(Isa::kScalar, kMost);
  for (const Isa isa : levels()) {
    const std::vector<float> got = product(isa, kMost);
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(std::memcmp(&got[i], &want[i], sizeof(float)), 0)
          << name_of(isa) << ": row " << i / kOutputs << ", output " << i % kOutputs << ": "
          << got[i] << ", not " << want[i];
    }
  }
}

TEST_P(LinearTest, RowsAreIndependent) {
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed_);
  std::vector<Isa> all = levels();
  all.push_back(Isa::kScalar);
  for (const Isa isa : all) {
    const std::vector<float> most = product(isa, kMost);
    for (std::uint32_t rows = 1; rows < kMost; rows += rows < 20 ? 1 : 23) {
      if (isa == Isa::kScalar && rows % 4 != 1) continue;  // it is slow
      const std::vector<float> some = product(isa, rows, 1 + rows % 4);
      ASSERT_EQ(std::memcmp(some.data(), most.data(), some.size() * sizeof(float)), 0)
          << name_of(isa) << ", " << rows << " rows";
    }
  }
}

TEST_P(LinearTest, IsTheProduct) {
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed_);
  constexpr std::uint32_t kSome = 9;
  const std::vector<float> got = product(kernels_for(Isa::kAuto).isa, kSome);
  std::vector<float> weights(kInputs);
  for (std::uint32_t n = 0; n < kOutputs; ++n) {
    unpack_output(weight_, n, weights.data());
    for (std::uint32_t row = 0; row < kSome; ++row) {
      double want = bias_[n], bound = 0;
      for (std::uint32_t g = 0; g < kInputs; g += kGroup) {
        float most = 0;
        double size = 0;
        for (std::uint32_t i = g; i < g + kGroup; ++i) {
          const float x = x_[std::size_t{row} * kInputs + i];
          want += double{weights[i]} * x;
          most = std::max(most, std::abs(x));
          size += std::abs(weights[i]);
        }
        bound += size * most / 254;  // half a step of rounding, all of one sign
      }
      ASSERT_NEAR(got[std::size_t{row} * kOutputs + n], want, bound + 1e-4) << row << ", " << n;
    }
  }
}

// Kernels for chunks: bf16, rows independent of each other.
TEST_P(LinearTest, ChunksAreTheProductToBfloats) {
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed_);
  const Kernels* chunk = kernels_for(Isa::kAuto).chunk;
  if (chunk == nullptr) {
    EXPECT_FALSE(quire::kernels::machine_has(Isa::kAmx));
    return;
  }
  const std::vector<float> most = product(*chunk, kMost, 1);
  for (std::uint32_t rows = 1; rows < kMost; rows += 13) {
    const std::vector<float> some = product(*chunk, rows, 1 + rows % 4);
    ASSERT_EQ(std::memcmp(some.data(), most.data(), some.size() * sizeof(float)), 0) << rows;
  }
  std::vector<float> weights(kInputs);
  for (std::uint32_t n = 0; n < kOutputs; ++n) {
    unpack_output(weight_, n, weights.data());
    for (std::uint32_t row = 0; row < kMost; row += 7) {
      double want = bias_[n], size = std::abs(bias_[n]);
      for (std::uint32_t i = 0; i < kInputs; ++i) {
        const double term = double{weights[i]} * x_[std::size_t{row} * kInputs + i];
        want += term;
        size += std::abs(term);
      }
      // Each factor is rounded by up to 2^-9 of it.
      ASSERT_NEAR(most[std::size_t{row} * kOutputs + n], want, size * 0x1p-8) << row << ", " << n;
    }
  }
}

TEST_P(LinearTest, NanAndInfinityReachEveryOutput) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    x_[kInputs + 40] = bad;  // row 1
    std::vector<Isa> all = levels();
    all.push_back(Isa::kScalar);
    for (const Isa isa : all) {
      const std::vector<float> got = product(isa, 20);
      for (std::uint32_t n = 0; n < kOutputs; ++n) {
        ASSERT_FALSE(std::isfinite(got[kOutputs + n])) << name_of(isa) << ", output " << n;
        ASSERT_TRUE(std::isfinite(got[n]) && std::isfinite(got[2 * kOutputs + n]));
      }
    }
  }
}

std::string format_name(const testing::TestParamInfo<Format>& format) {
  constexpr const char* kNames[] = {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"};
  return kNames[static_cast<std::size_t>(format.param)];
}

INSTANTIATE_TEST_SUITE_P(Formats, LinearTest, testing::ValuesIn(kAll), format_name);

}  // namespace
}  // namespace quire::linear
