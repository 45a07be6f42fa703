// Goal: a step's time is predicted by the line that the steps before it lay on, and no more rows
//   are taken than fit a time.
// Method: lines drawn and found again, also with noise, with too few steps, and after one that
//   changed; rows against a search by counting up.

#include "engine/step_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "support/seed.h"

namespace quire::engine {
namespace {

TEST(StepCost, PairsAreCountedRowByRow) {
  for (std::uint64_t context : {0u, 1u, 77u}) {
    for (std::uint32_t rows : {0u, 1u, 2u, 33u}) {
      double pairs = 0;
      for (std::uint32_t row = 0; row < rows; ++row)
        pairs += static_cast<double>(context + row + 1);
      EXPECT_EQ(pairs_of(context, rows), pairs);
    }
  }
}

TEST(StepCost, TheMostRowsThatFitATime) {
  std::mt19937_64 random(test::seed());
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  for (int run = 0; run < 2000; ++run) {
    const StepCost cost{1, below(4) * 1e-3, below(4) * 1e-6};
    const std::uint64_t context = below(3000);
    const std::uint32_t most = below(600);
    const double seconds = below(1000) * 1e-3;
    std::uint32_t rows = 0;
    const auto takes = [&](std::uint32_t n) {
      return cost.row_seconds * n + cost.entry_seconds * pairs_of(context, n);
    };
    while (rows < most && seconds > 0 && takes(rows + 1) <= seconds * (1 + 1e-12)) ++rows;
    ASSERT_EQ(rows_within(cost, context, seconds, most), rows)
        << cost.row_seconds << " " << cost.entry_seconds << " " << context << " " << seconds;
  }
}

// Steps of a server: answers alone, or beside a chunk of a prompt.
struct Steps {
  std::mt19937_64 random{test::seed()};
  double noise = 0;
  double real() { return static_cast<double>(random() % 10'000) / 10'000; }
  void show(StepFit& fit, const StepCost& truth, int count, bool prompts = true) {
    for (int i = 0; i < count; ++i) {
      const bool prompt = prompts && random() % 3 == 0;
      const double rows =
          1 + std::floor(real() * 15) + (prompt ? 16 + std::floor(real() * 480) : 0);
      const double pairs = rows * (50 + std::floor(real() * 4000));
      fit.observe(rows, pairs, prompt, truth.seconds(rows, pairs) * (1 + noise * (real() - 0.5)));
    }
  }
};

TEST(StepCost, TheLineIsFoundAgain) {
  const StepCost truth{0.011, 0.0009, 3e-8};
  Steps steps;
  StepFit fit;
  EXPECT_FALSE(fit.cost().known());
  steps.show(fit, truth, 200);
  EXPECT_NEAR(fit.cost().fixed_seconds, truth.fixed_seconds, 1e-6);
  EXPECT_NEAR(fit.cost().row_seconds, truth.row_seconds, 1e-8);
  EXPECT_NEAR(fit.cost().entry_seconds, truth.entry_seconds, 1e-12);

  steps.noise = 0.2;
  steps.show(fit, truth, 400);
  for (const double rows : {1.0, 16.0, 300.0}) {
    const double expected = truth.seconds(rows, rows * 1000);
    EXPECT_NEAR(fit.cost().seconds(rows, rows * 1000), expected, 0.2 * expected) << rows;
  }
}

TEST(StepCost, NothingIsNegativeAndLittleIsPutDownToRows) {
  StepFit fit;
  fit.observe(100, 5000, true, 2);
  EXPECT_NEAR(fit.cost().seconds(200, 10'000), 4, 1e-9)
      << "one step: twice the rows, twice as long";
  std::mt19937_64 random(test::seed());
  for (int i = 0; i < 500; ++i) {
    const auto any = [&] { return 1 + static_cast<double>(random() % 1000); };
    fit.observe(any(), any(), random() % 2 == 0, any());
    const StepCost cost = fit.cost();
    ASSERT_TRUE(cost.known());
    ASSERT_GE(std::min({cost.fixed_seconds, cost.row_seconds, cost.entry_seconds}), 0.0);
  }
  const StepCost before = fit.cost();
  fit.observe(5, 5, false, 0);  // a clock that stood still says nothing
  EXPECT_EQ(fit.cost().seconds(1, 1), before.seconds(1, 1));
}

TEST(StepCost, WhatPromptsCostIsRememberedThroughATimeWithoutThem) {
  const StepCost truth{0.011, 0.0009, 3e-8};
  Steps steps;
  StepFit fit;
  steps.show(fit, truth, 200);
  steps.show(fit, truth, 5000, false);
  const double expected = truth.seconds(512, 512 * 800);
  EXPECT_NEAR(fit.cost().seconds(512, 512 * 800), expected, 0.01 * expected);
  // And a machine that became twice as slow is noticed.
  steps.show(fit, {2 * truth.fixed_seconds, 2 * truth.row_seconds, 2 * truth.entry_seconds}, 1500);
  EXPECT_NEAR(fit.cost().seconds(512, 512 * 800), 2 * expected, 0.02 * expected);
}

}  // namespace
}  // namespace quire::engine
