// Goal: NLL and KL of a row are those of plain double arithmetic, and 0 for equal bits.
// Method: random logits of odd sizes against libm.

#include "eval/row_score.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "support/seed.h"

namespace quire::eval {
namespace {

double log_sum(const std::vector<float>& logits) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  return std::log(sum);
}

TEST(RowScore, AgreesWithDoubleArithmetic) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 4);
  for (const std::size_t size : {2, 7, 8, 9, 1000, 49'152}) {
    std::vector<float> full(size), arm(size);
    for (std::size_t i = 0; i < size; ++i) {
      full[i] = normal(random);
      arm[i] = full[i] + normal(random) / 8;
    }
    const double full_sum = log_sum(full), arm_sum = log_sum(arm);
    double kl = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const double p = static_cast<double>(full[i]) - full_sum;
      kl += std::exp(p) * (p - (static_cast<double>(arm[i]) - arm_sum));
    }
    FullRow row;
    row.set(full);
    const auto next = static_cast<model::Token>(size / 2);
    const RowScore score = row.score(arm, next);
    EXPECT_NEAR(score.kl, kl, 1e-6 + 1e-5 * kl) << size;
    EXPECT_NEAR(score.nll, arm_sum - static_cast<double>(arm[size / 2]), 1e-5) << size;
    EXPECT_NEAR(score.full_nll, full_sum - static_cast<double>(full[size / 2]), 1e-5) << size;
    EXPECT_EQ(row.score(full, next).kl, 0) << size;
  }
}

TEST(RowScore, FarLogitsAndEqualShiftsAreHarmless) {
  const std::vector<float> full = {1000, -1000, 999, 0}, shifted = {500, -1500, 499, -500};
  FullRow row;
  row.set(full);
  const RowScore score = row.score(shifted, 0);
  EXPECT_NEAR(score.kl, 0, 1e-4);
  EXPECT_NEAR(score.nll, std::log(1 + std::exp(-1.0)), 1e-6);
  EXPECT_EQ(score.top, 0);
  EXPECT_EQ(score.full_top, 0);
}

}  // namespace
}  // namespace quire::eval
