// Goal: every policy of the list keeps the promises of quire/policy.h.
// Method: one suite over list_policies(), run as the cache runs a policy (score, then choose with
// its quota) on random lanes that offer only the spans the policy declared.  A failure prints its
// seed; rerun with QUIRE_SEED=<seed>.

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "policies/lane.h"
#include "support/seed.h"

namespace quire {
namespace {

class PolicyContract : public testing::TestWithParam<std::string> {
 protected:
  Policy make(const std::string& options = "") const {
    Result<Policy> policy = make_policy(GetParam() + ":" + options);
    EXPECT_TRUE(policy.ok()) << policy.status().message();
    return *std::move(policy);
  }
  const std::uint64_t seed_ = test::seed();
  std::mt19937_64 random_{seed_};
};

std::vector<std::uint32_t> quotas(std::uint32_t live) {
  std::set<std::uint32_t> set;
  for (std::uint32_t quota : {1u, 2u, 5u, 67u, 68u, 69u, live / 4, live / 2, live - 2, live - 1}) {
    if (0 < quota && quota < live) set.insert(quota);
  }
  return {set.begin(), set.end()};
}

TEST_P(PolicyContract, KeepsExactlyTheQuotaAscendingWithTheProtectedSet) {
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed_);
  const Policy policy = make();
  ASSERT_EQ(policy.protect.sinks, 4u);
  ASSERT_EQ(policy.protect.recent, 64u);
  for (std::uint32_t live : {2u, 3u, 17u, 69u, 70u, 200u, 700u}) {
    const test::Lane lane = test::random_lane(random_, live);
    const std::vector<float> score = test::score_of(policy, lane);
    for (std::uint32_t quota : quotas(live)) {
      const std::vector<Ordinal> kept = test::choose_with(policy, lane, score, quota);
      ASSERT_EQ(kept.size(), quota);
      const std::set<Ordinal> set(kept.begin(), kept.end());
      ASSERT_EQ(set.size(), quota) << "an ordinal twice";
      ASSERT_TRUE(std::is_sorted(kept.begin(), kept.end()));
      ASSERT_LT(kept.back(), live);
      const std::uint32_t sinks = std::min(policy.protect.sinks, quota);
      const std::uint32_t recent = std::min(policy.protect.recent, quota - sinks);
      for (Ordinal i = 0; i < sinks; ++i) ASSERT_TRUE(set.count(i)) << "sink " << i;
      for (Ordinal i = 0; i < recent; ++i) ASSERT_TRUE(set.count(live - 1 - i)) << "recent " << i;
    }
  }
}

TEST_P(PolicyContract, EqualScoresKeepTheNewer) {
  const Policy policy = make("sinks=1,recent=2");
  test::Lane lane = test::random_lane(random_, 10);
  lane.output_norm.assign(10, 2.0f);  // scores that are weighed by it stay equal
  lane.structured = 0;                // quotas of roles keep the older, as their paper
  EXPECT_EQ(test::choose_with(policy, lane, std::vector<float>(10, 0.5f), 5),
            (std::vector<Ordinal>{0, 6, 7, 8, 9}));
}

TEST_P(PolicyContract, TheSameInputGivesTheSameScores) {
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed_);
  const test::Lane lane = test::random_lane(random_, 300);
  const std::vector<float> first = test::score_of(make(), lane);
  EXPECT_EQ(first, test::score_of(make(), lane));
  const test::Lane moved = lane;  // the same values elsewhere in memory
  EXPECT_EQ(first, test::score_of(make(), moved));
}

TEST_P(PolicyContract, ScoresAreFiniteWhateverTheFeatures) {
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed_);
  const Policy policy = make();
  test::Lane lane = test::random_lane(random_, 200);
  const float infinity = std::numeric_limits<float>::infinity();
  lane.key_norm[7] = lane.value_norm[7] = infinity;  // an f16 overflow
  lane.key_norm[9] = lane.value_norm[9] = std::numeric_limits<float>::quiet_NaN();
  for (std::vector<float>* feature :
       {&lane.alignment, &lane.key_spread, &lane.similarity, &lane.expected, &lane.output_norm}) {
    (*feature)[7] = infinity;
    (*feature)[9] = std::numeric_limits<float>::quiet_NaN();
  }
  lane.tap[11] = 8e6f;  // the largest sum a long context can reach
  lane.tap[12] = 0;
  for (std::uint32_t rows : {0u, 1u, 64u, 1000u}) {
    lane.window_rows = rows;
    for (float score : test::score_of(policy, lane)) ASSERT_TRUE(std::isfinite(score));
  }
}

// Where nothing is combined after the score, its order alone decides.
TEST_P(PolicyContract, AnIncreasingTransformOfTheScoresChangesNoVictim) {
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed_);
  if (GetParam() == "chunkkv") GTEST_SKIP() << "averages scores when it chooses";
  if (GetParam() == "criticalkv") GTEST_SKIP() << "weighs scores when it chooses";
  const Policy policy = make("recent=8");
  const test::Lane lane = test::random_lane(random_, 300);
  const std::vector<float> score = test::score_of(policy, lane);
  std::vector<float> sorted = score, rank;
  std::ranges::sort(sorted);
  for (const float s : score) {
    rank.push_back(static_cast<float>(std::ranges::lower_bound(sorted, s) - sorted.begin()) - 99);
  }
  for (std::uint32_t quota : quotas(300)) {
    EXPECT_EQ(test::choose_with(policy, lane, score, quota),
              test::choose_with(policy, lane, rank, quota));
  }
}

TEST_P(PolicyContract, CountsOfAnAllocationAddUpAndFitTheirLanes) {
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed_);
  const Policy policy = make("sinks=2,recent=6");
  if (!policy.allocate) GTEST_SKIP() << "equal shares";
  ASSERT_NE(policy.divides, Scope::kLane);
  for (int round = 0; round < 20; ++round) {
    std::vector<test::Lane> lanes;
    std::vector<std::vector<float>> scores;
    for (std::uint32_t i = 0; i < 6; ++i) {
      lanes.push_back(test::random_lane(random_, 200));
      lanes.back().layer = policy.divides == Scope::kLayer ? 3 : i / 2;
      scores.push_back(test::score_of(policy, lanes.back()));
    }
    std::vector<EntryView> views;
    for (const test::Lane& lane : lanes) views.push_back(lane.view(policy.needs));
    const std::vector<std::span<const float>> spans(scores.begin(), scores.end());
    const auto entries = static_cast<std::uint32_t>(6 * (20 + random_() % 180));
    std::vector<std::uint32_t> counts(6, ~0u);
    policy.allocate(policy.protect, views, spans, entries, counts);
    std::uint64_t sum = 0;
    for (const std::uint32_t count : counts) {
      EXPECT_LE(count, 400u);  // of pyramidkv's the cache cuts what a lane does not have
      sum += count;
    }
    EXPECT_NEAR(static_cast<double>(sum), entries, 3) << "but for rounding";
  }
}

TEST_P(PolicyContract, IsDescribedForPeople) {
  for (const PolicyInfo& info : list_policies()) {
    if (info.name != GetParam()) continue;
    for (const std::string& text :
         {info.source, info.needs, info.scope, info.when, info.when_not, info.cost}) {
      EXPECT_FALSE(text.empty());
      EXPECT_LE(text.size(), 110u) << "one line: " << text;
    }
  }
}

TEST_P(PolicyContract, OptionsReachTheProtection) {
  const Policy policy = make("recent=9,sinks=0");
  EXPECT_EQ(policy.protect.sinks, 0u);
  EXPECT_EQ(policy.protect.recent, 9u);
  EXPECT_FALSE(policy.source.empty());
}

TEST_P(PolicyContract, ListedOptionsAreAcceptedAsListed) {
  for (const PolicyInfo& info : list_policies()) {
    if (info.name != GetParam()) continue;
    EXPECT_TRUE(make_policy(info.name + ":" + info.options).ok()) << info.options;
  }
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const PolicyInfo& info : list_policies()) names.push_back(info.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, PolicyContract, testing::ValuesIn(all_names()),
                         [](const testing::TestParamInfo<std::string>& policy) {
                           std::string name = policy.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace quire
