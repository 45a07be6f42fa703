// Goal, Method: those of exact_test.cc, on a real model.

#include <gtest/gtest.h>

#include <cstdio>

#include "engine/exact_runs.h"
#include "model/real_model.h"
#include "support/seed.h"

namespace quire {
namespace {

using test::ExactCounts;
using test::ExactRuns;

ExactCounts run(bool deterministic) {
  ExactCounts counts;
  ExactRuns runs({.path = test::real_model(test::kSmolLm),
                  .threads = test::test_threads(),
                  .deterministic = deterministic},
                 {.budget_bytes = 64u << 20});
  if (!runs.open()) return counts;
  const std::vector<model::Token> text =
      runs.model().tokenize(test::real_text(0, 12'000), true, false);
  for (std::uint32_t i = 0; i < 4; ++i) {
    // The beginning is the same, what follows is from elsewhere.
    std::vector<model::Token> prompt(text.begin(), text.begin() + 60 + 40 * i);
    const auto own = text.begin() + 600 + 200 * i;
    prompt.insert(prompt.end(), own, own + 90 - 20 * i);
    runs.first(std::move(prompt), 10);
  }
  const std::uint64_t first = test::seed();
  for (std::uint64_t seed = first; seed < first + 4; ++seed) {
    // A text is 5 MiB.
    runs.schedule(seed, (seed % 2 == 0 ? std::size_t{14} : std::size_t{48}) << 20, 10, counts);
    if (testing::Test::HasFailure()) break;
  }
  return counts;
}

TEST(ExactSlow, TheDeterministicModeIsBitEqualUnderEverySchedule) {
  QUIRE_NEED(test::real_model(test::kSmolLm));
  const ExactCounts counts = run(true);
  EXPECT_EQ(counts.difference, 0) << "bits differ";
  EXPECT_EQ(counts.answers, 40u);
  EXPECT_GT(counts.cached, 10u);
}

TEST(ExactSlow, TheDefaultModeDiffersByRounding) {
  QUIRE_NEED(test::real_model(test::kSmolLm));
  const ExactCounts counts = run(false);
  std::printf("SmolLM2 Q4_1: largest difference %.2g of a row's largest logit\n",
              counts.difference);
  EXPECT_LT(counts.difference, 0.1);
  EXPECT_GT(counts.cached, 10u);
}

}  // namespace
}  // namespace quire
