// Goal: norms, activations, rotations and the rounding to records compute their formulas, with the
// same bits on every instruction set.
// Method: random rows; records read back and compared with f64 formulas within half a step of
// rounding; every level of the machine against the scalar twin with memcmp.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "kernels/kernels.h"
#include "linear/levels.h"
#include "support/seed.h"

namespace quire::linear {
namespace {

constexpr std::uint32_t kRows = kBlockRows + 9, kInputs = 160;
constexpr Isa kLevels[] = {Isa::kScalar, Isa::kAvx2,       Isa::kAvxVnni,
                           Isa::kAvx512, Isa::kAvx512Vnni, Isa::kAmx};

class RowsTest : public testing::Test {
 protected:
  RowsTest() : seed_(test::seed()), random_(seed_) {}

  std::vector<float> draw(std::size_t count, float size = 1) {
    std::normal_distribution<float> normal(0, size);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }

  using Fill = std::function<void(const Kernels&, std::uint32_t begin, std::uint32_t end,
                                  std::byte* records)>;
  using Formula = std::function<double(std::uint32_t row, std::uint32_t input)>;

  // Records of `fill`, in two parts, at every level against `formula`.
  void expect_records(const Fill& fill, const Formula& formula) {
    SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed_);
    std::vector<std::byte> want;
    for (const Isa isa : kLevels) {
      if (!quire::kernels::machine_has(isa)) continue;
      std::vector<std::byte> got(rows_bytes(kernels_for(isa), kRows, kInputs));
      fill(kernels_for(isa), 0, 7, got.data());
      fill(kernels_for(isa), 7, kRows, got.data());
      if (want.empty()) want = got;
      ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size()), 0) << name_of(isa);
    }
    for (std::uint32_t row = 0; row < kRows; ++row) {
      for (std::uint32_t g = 0; g < kInputs / kGroup; ++g) {
        RowRecord record;
        std::memcpy(&record, want.data() + record_offset(kRows, kInputs, row, g), sizeof record);
        std::int32_t sum = 0, low = 0;
        for (std::uint32_t i = 0; i < kGroup; ++i) {
          const double value = formula(row, g * kGroup + i);
          ASSERT_NEAR(record.code[i] * double{record.scale}, value,
                      0.5001 * record.scale + 1e-5 * std::abs(value))
              << "row " << row << ", input " << g * kGroup + i;
          sum += record.code[i];
          if (i < kGroup / 2) low += record.code[i];
        }
        ASSERT_EQ(record.minus_sum, -sum);
        ASSERT_EQ(record.minus_low, -low);
        ASSERT_EQ(record.sum, record.scale * static_cast<float>(sum));
      }
    }
  }

  std::uint64_t seed_;
  std::mt19937_64 random_;
};

TEST_F(RowsTest, QuantizeRoundsToTheNearest) {
  const std::vector<float> x = draw(kRows * kInputs, 3);
  expect_records(
      [&](const Kernels& kernels, std::uint32_t begin, std::uint32_t end, std::byte* records) {
        kernels.quantize(x.data(), kRows, kInputs, begin, end, records);
      },
      [&](std::uint32_t row, std::uint32_t i) { return x[row * kInputs + i]; });
}

TEST_F(RowsTest, NormalizeIsRmsNorm) {
  const std::vector<float> x = draw(kRows * kInputs, 5), weight = draw(kInputs);
  constexpr float kEpsilon = 1e-3f;
  expect_records(
      [&](const Kernels& kernels, std::uint32_t begin, std::uint32_t end, std::byte* records) {
        kernels.normalize(x.data(), weight.data(), kEpsilon, kRows, kInputs, begin, end, records);
      },
      [&](std::uint32_t row, std::uint32_t i) {
        double square = 0;
        for (std::uint32_t j = 0; j < kInputs; ++j) square += std::pow(x[row * kInputs + j], 2);
        return x[row * kInputs + i] / std::sqrt(square / kInputs + kEpsilon) * weight[i];
      });
}

TEST_F(RowsTest, ActivateIsSiluOrGeluTimesUp) {
  std::vector<float> gate = draw(kRows * kInputs, 4);
  gate[3] = 200, gate[40] = -200;  // far beyond where exp overflows
  const std::vector<float> up = draw(kRows * kInputs);
  for (const Activation activation : {Activation::kSilu, Activation::kGelu}) {
    expect_records(
        [&](const Kernels& kernels, std::uint32_t begin, std::uint32_t end, std::byte* records) {
          kernels.activate(activation, gate.data(), up.data(), kRows, kInputs, begin, end, records);
        },
        [&](std::uint32_t row, std::uint32_t i) {
          const double x = gate[row * kInputs + i];
          const double tanh = std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x));
          const double y =
              activation == Activation::kSilu ? x / (1 + std::exp(-x)) : x / 2 * (1 + tanh);
          return y * up[row * kInputs + i];
        });
  }
}

TEST_F(RowsTest, RotateTurnsPairs) {
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed_);
  constexpr std::uint32_t kHeads = 3, kSize = 64;
  const std::vector<float> x = draw(kRows * kHeads * kSize), norm = draw(kSize);
  for (const std::uint32_t dims : {kSize, kSize / 2}) {
    for (const bool halves : {false, true}) {
      for (const bool normed : {false, true}) {
        std::vector<float> table(kRows * dims), want;
        const auto pair = [&](std::uint32_t i) {
          return halves ? std::pair(i, i + dims / 2) : std::pair(2 * i, 2 * i + 1);
        };
        for (std::uint32_t row = 0; row < kRows; ++row) {
          for (std::uint32_t i = 0; i < dims / 2; ++i) {
            const double angle = row * std::pow(1e4, -2.0 * i / dims);
            table[row * dims + pair(i).first] = static_cast<float>(std::cos(angle));
            table[row * dims + pair(i).second] = static_cast<float>(std::sin(angle));
          }
        }
        for (const Isa isa : kLevels) {
          if (!quire::kernels::machine_has(isa)) continue;
          std::vector<float> got(x.size());
          const Heads heads{.x = x.data(),
                            .out = got.data(),
                            .heads = kHeads,
                            .size = kSize,
                            .dims = dims,
                            .halves = halves,
                            .norm = normed ? norm.data() : nullptr,
                            .epsilon = 1e-5f};
          kernels_for(isa).rotate(heads, table.data(), 0, 5);
          kernels_for(isa).rotate(heads, table.data(), 5, kRows);
          if (want.empty()) want = got;
          ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size() * 4), 0) << name_of(isa);
        }
        for (std::uint32_t head = 0; head < kRows * kHeads; ++head) {
          const float* from = x.data() + head * kSize;
          double square = 0;
          for (std::uint32_t i = 0; i < kSize; ++i) square += double{from[i]} * from[i];
          const double factor = normed ? 1 / std::sqrt(square / kSize + 1e-5) : 1;
          const auto value = [&](std::uint32_t i) {
            return from[i] * factor * (normed ? norm[i] : 1);
          };
          const float* turn = table.data() + head / kHeads * dims;
          for (std::uint32_t i = 0; i < dims / 2; ++i) {
            const auto [a, b] = pair(i);
            const float* got = want.data() + head * kSize;
            ASSERT_NEAR(got[a], value(a) * turn[a] - value(b) * turn[b], 2e-5);
            ASSERT_NEAR(got[b], value(a) * turn[b] + value(b) * turn[a], 2e-5);
          }
          for (std::uint32_t i = dims; i < kSize; ++i) {
            ASSERT_NEAR(want[head * kSize + i], value(i), 2e-5);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire::linear
