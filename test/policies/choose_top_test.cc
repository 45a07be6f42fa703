// Goal: choose_top keeps exactly the entries its rule names.
// Method: three cases a reader can check by eye, then random lanes against an oracle that states
// the rule in its plainest form.  A failure prints its seed; rerun with QUIRE_SEED=<seed>.

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "quire/arena.h"
#include "quire/policy.h"
#include "support/seed.h"

namespace quire {
namespace {

using Ordinals = std::vector<Ordinal>;

Ordinals choose(Protection protect, const std::vector<float>& score, std::uint32_t quota) {
  Arena scratch(score.size() * sizeof(Ordinal));
  Ordinals kept(quota);
  choose_top(protect, score, kept, scratch);
  return kept;
}

// Fixed areas first, then one best remaining entry at a time.
Ordinals oracle(Protection protect, const std::vector<float>& score, std::uint32_t quota) {
  const auto live = static_cast<Ordinal>(score.size());
  std::vector<bool> keep(live);
  std::uint32_t left = quota;
  for (Ordinal i = 0; i < protect.sinks && left > 0; ++i, --left) keep[i] = true;
  for (Ordinal i = 0; i < protect.recent && left > 0; ++i, --left) keep[live - 1 - i] = true;
  for (; left > 0; --left) {
    Ordinal best = live;
    for (Ordinal i = 0; i < live; ++i) {
      if (!keep[i] && (best == live || score[i] >= score[best])) best = i;
    }
    keep[best] = true;
  }
  Ordinals kept;
  for (Ordinal i = 0; i < live; ++i) {
    if (keep[i]) kept.push_back(i);
  }
  return kept;
}

TEST(ChooseTop, KeepsSinksRecentAndTheHighestScored) {
  EXPECT_EQ(choose({.sinks = 1, .recent = 2}, {0, 5, 1, 9, 2, 0, 0}, 4), (Ordinals{0, 3, 5, 6}));
}

TEST(ChooseTop, EqualScoresKeepTheNewerEntry) {
  EXPECT_EQ(choose({.sinks = 1, .recent = 1}, {0, 7, 7, 7, 0}, 3), (Ordinals{0, 3, 4}));
}

TEST(ChooseTop, TightQuotaGivesUpRecentBeforeSinks) {
  EXPECT_EQ(choose({.sinks = 2, .recent = 8}, {0, 0, 9, 9, 0}, 3), (Ordinals{0, 1, 4}));
}

TEST(ChooseTop, AgreesWithTheOracleOnRandomLanes) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2'000; ++round) {
    std::vector<float> score(2 + random() % 64);
    for (float& s : score) s = static_cast<float>(random() % 8);  // few values, many ties
    const auto quota = static_cast<std::uint32_t>(1 + random() % (score.size() - 1));
    const Protection protect{.sinks = static_cast<std::uint32_t>(random() % 8),
                             .recent = static_cast<std::uint32_t>(random() % 8)};
    ASSERT_EQ(choose(protect, score, quota), oracle(protect, score, quota));
  }
}

TEST(ChooseTopDeathTest, RefusesAQuotaThatEvictsNothing) {
  EXPECT_DEATH(choose({}, {1, 2, 3}, 3), "quota < live");
}

}  // namespace
}  // namespace quire
