// Goal: each policy computes the score its paper or file comment states.
// Method: cases a reader can check by eye, and the plainest form of each rule on random lanes; for
// the random policy, a chi-square test at fixed seeds.  A failure prints its seed; rerun with
// QUIRE_SEED=<seed>.

#include <gtest/gtest.h>

#include <cmath>

#include "policies/lane.h"
#include "policies/policies.h"
#include "support/seed.h"

namespace quire {
namespace {

using policies::kOwnWindow;
using Scores = std::vector<float>;

Policy make(std::string_view spec) {
  Result<Policy> policy = make_policy(spec);
  EXPECT_TRUE(policy.ok()) << policy.status().message();
  return *std::move(policy);
}

// One lane at positions 0, 1, 2 ... whose tap is the sum over `rows` last rows.
test::Lane tapped(std::vector<float> tap, std::uint32_t rows) {
  test::Lane lane{.tap = std::move(tap), .window_rows = rows};
  for (Position i = 0; i < lane.tap.size(); ++i) lane.position.push_back(i);
  return lane;
}

TEST(SinkRecency, KeepsTheFirstAndTheNewest) {
  const Policy policy = make("sink-recency:sinks=2,recent=1");
  const test::Lane lane = tapped(Scores(8, 0), 0);
  EXPECT_EQ(test::choose_with(policy, lane, test::score_of(policy, lane), 5),
            (std::vector<Ordinal>{0, 1, 5, 6, 7}));
}

TEST(HeavyHitter, ScoreIsTheSumAndAgeDividesIt) {
  const test::Lane lane = tapped({4, 3, 1, 1}, 0);
  EXPECT_EQ(test::score_of(make("h2o"), lane), (Scores{4, 3, 1, 1}));
  EXPECT_EQ(test::score_of(make("h2o-age"), lane), (Scores{1, 1, 0.5, 1}));
}

TEST(HeavyHitter, WithoutHeavyShareIsSinkRecency) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  const Policy light = make("h2o:heavy=0,recent=8"), recency = make("sink-recency:recent=8");
  for (std::uint32_t quota : {1u, 3u, 13u, 60u, 119u}) {
    const test::Lane lane = test::random_lane(random, 120);
    EXPECT_EQ(test::choose_with(light, lane, test::score_of(light, lane), quota),
              test::choose_with(recency, lane, test::score_of(recency, lane), quota));
  }
}

TEST(HeavyHitter, HalfTheQuotaIsThePaper) {
  const Policy policy = make("h2o:heavy=50,sinks=0,recent=0");
  const test::Lane lane = tapped({1, 9, 8, 0, 7, 0, 0, 0}, 0);
  EXPECT_EQ(test::choose_with(policy, lane, test::score_of(policy, lane), 4),
            (std::vector<Ordinal>{1, 2, 6, 7}));
}

TEST(Knorm, SmallKeysStay) {
  test::Lane lane = tapped({0, 0, 0}, 0);
  lane.key_norm = lane.value_norm = {3, 1, 2};
  EXPECT_EQ(test::score_of(make("knorm"), lane), (Scores{-3, -1, -2}));
}

TEST(SnapKv, AveragesNeighboursThatExist) {
  // 2 rows; the newest 2 entries are their own window and never enter an average.
  const test::Lane lane = tapped({10, 0, 0, 0, 0, 20, 100, 100}, 2);
  EXPECT_EQ(test::score_of(make("snapkv:pool=3"), lane),
            (Scores{2.5f, 5 / 3.0f, 0, 0, 10 / 3.0f, 5, kOwnWindow, kOwnWindow}));
  EXPECT_EQ(test::score_of(make("snapkv:pool=1"), lane),
            (Scores{5, 0, 0, 0, 0, 10, kOwnWindow, kOwnWindow}));
}

TEST(SnapKv, BeforeTheWindowNewerEntriesStay) {
  const test::Lane lane = tapped(Scores(8, 0), 0);
  for (const char* name : {"snapkv", "snapkv-ahead"}) {
    const Policy policy = make(std::string(name) + ":sinks=1,recent=2");
    EXPECT_EQ(test::choose_with(policy, lane, test::score_of(policy, lane), 6),
              (std::vector<Ordinal>{0, 3, 4, 5, 6, 7}));
  }
}

// A prompt of 6 tokens, the last 2 of which judged, and an answer of 4.
TEST(SnapKv, TheAnswerIsKeptAndThePromptReviewedByTheSameSums) {
  test::Lane lane = tapped({1, 9, 5, 3, 7, 7, 0, 0, 0, 0}, 2);
  lane.after_window = 4;
  EXPECT_EQ(test::score_of(make("snapkv:pool=1"), lane),
            (Scores{0.5f, 4.5f, 2.5f, 1.5f, kOwnWindow, kOwnWindow, kOwnWindow, kOwnWindow,
                    kOwnWindow, kOwnWindow}));
  for (const char* spec :
       {"snapkv:pool=1,sinks=0,recent=1", "snapkv-ahead:length=1,sinks=0,recent=1"}) {
    const Policy policy = make(spec);
    const Scores score = test::score_of(policy, lane);
    EXPECT_EQ(test::choose_with(policy, lane, score, 8),
              (std::vector<Ordinal>{1, 2, 4, 5, 6, 7, 8, 9}));
    EXPECT_EQ(test::choose_with(policy, lane, score, 3), (std::vector<Ordinal>{7, 8, 9}));
  }
  // What is left of the prompt after its window went is still pooled.
  lane = tapped({4, 8, 0, 0}, 1);
  lane.position = {0, 1, 9, 10};
  lane.after_window = 2;
  lane.tap = {4, 8, 0, 0};
  EXPECT_EQ(test::score_of(make("snapkv:pool=3"), lane), (Scores{6, 6, kOwnWindow, kOwnWindow}));
}

TEST(SnapKv, NeighboursAreNeighboursInTheText) {
  test::Lane lane = tapped({4, 0, 8, 0}, 1);
  lane.position = {0, 10, 11, 50};
  EXPECT_EQ(test::score_of(make("snapkv:pool=5"), lane), (Scores{4, 4, 4, kOwnWindow}));
}

TEST(SnapKv, AgreesWithItsPlainestFormOnRandomLanes) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 50; ++round) {
    const auto live = static_cast<std::uint32_t>(2 + random() % 300);
    const test::Lane lane = test::random_lane(random, live);
    const Position last = lane.position.back();
    const auto own = static_cast<std::uint32_t>(std::ranges::count_if(
        lane.position, [&](Position p) { return last - p < lane.window_rows; }));
    const Scores average = test::score_of(make("snapkv"), lane);
    const Scores ahead = test::score_of(make("snapkv-ahead"), lane);
    for (std::uint32_t i = 0; i < live - own; ++i) {
      double sum = 0;
      int count = 0;
      float best = 0;
      for (std::uint32_t j = 0; j < live - own; ++j) {
        const int apart = static_cast<int>(lane.position[i]) - static_cast<int>(lane.position[j]);
        const float raw = lane.tap[j] / static_cast<float>(lane.window_rows);
        if (std::abs(apart) <= 2) sum += raw, ++count;
        if (0 <= apart && apart < 8) best = std::max(best, raw);
      }
      ASSERT_FLOAT_EQ(average[i], static_cast<float>(sum / count)) << i;
      ASSERT_EQ(ahead[i], best) << i;
    }
    for (std::uint32_t i = live - own; i < live; ++i) ASSERT_EQ(ahead[i], kOwnWindow);
  }
}

TEST(SnapKvAhead, KeepsWhatFollowsAHit) {
  test::Lane lane = tapped(Scores(40, 0), 4);
  lane.tap[10] = 4;
  const Policy policy = make("snapkv-ahead:sinks=1,recent=4");
  EXPECT_EQ(test::choose_with(policy, lane, test::score_of(policy, lane), 13),
            (std::vector<Ordinal>{0, 10, 11, 12, 13, 14, 15, 16, 17, 36, 37, 38, 39}));
  EXPECT_EQ(test::score_of(make("snapkv-ahead:length=1"), lane),
            test::score_of(make("snapkv:pool=1"), lane));
}

TEST(Random, TheNumberOfAnEntryDependsOnSeedLaneAndPositionAlone) {
  const Policy policy = make("random:seed=7");
  test::Lane lane = tapped(Scores(100, 0), 0);
  const Scores before = test::score_of(policy, lane);
  test::Lane fewer = lane;
  fewer.position = {3, 50, 99};
  fewer.tap.resize(3);
  EXPECT_EQ(test::score_of(policy, fewer), (Scores{before[3], before[50], before[99]}));
  EXPECT_NE(test::score_of(make("random:seed=8"), lane), before);
  lane.head = 1;
  EXPECT_NE(test::score_of(policy, lane), before);
  lane.head = 0, lane.layer = 1;
  EXPECT_NE(test::score_of(policy, lane), before);
}

TEST(Random, EveryUnprotectedPositionIsEquallyLikelyToStay) {
  constexpr std::uint32_t kMiddle = 200, kKept = 50, kLanes = 400;
  std::vector<double> kept_count(kMiddle, 0);
  for (std::uint32_t lane_index = 0; lane_index < kLanes; ++lane_index) {
    const Policy policy = make("random:seed=" + std::to_string(lane_index / 8));
    test::Lane lane = tapped(Scores(kMiddle + 68, 0), 0);
    lane.layer = lane_index % 8 / 2, lane.head = lane_index % 2;
    for (Ordinal i : test::choose_with(policy, lane, test::score_of(policy, lane), kKept + 68)) {
      if (4 <= i && i < kMiddle + 4) kept_count[i - 4] += 1;
    }
  }
  // Sampling without replacement: the statistic shrinks by (1 - kept / middle).
  const double expected = double{kLanes} * kKept / kMiddle;
  double chi_square = 0;
  for (double count : kept_count) chi_square += (count - expected) * (count - expected) / expected;
  chi_square /= 1 - double{kKept} / kMiddle;
  // 199 degrees of freedom: the 0.1 % and 99.9 % quantiles are 141 and 266.
  EXPECT_GT(chi_square, 141);
  EXPECT_LT(chi_square, 266);
}

}  // namespace
}  // namespace quire
