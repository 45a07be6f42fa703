// Goal: quotas of roles are those of their paper, to the entry; within a role only the wrapped
// score
//   decides; and texts without structure are left to it.
// Method: sizes written by hand with what they must be granted; the invariants of the paper's
//   allocation on random sizes and lanes.  A failure prints its seed; rerun with QUIRE_SEED=<seed>.

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "policies/lane.h"
#include "policies/policies.h"
#include "support/seed.h"

namespace quire {
namespace {

using policies::index;
using policies::role_quotas;
using policies::RoleCounts;
using policies::RoleWeights;

Policy make(std::string_view spec) {
  Result<Policy> policy = make_policy(spec);
  EXPECT_TRUE(policy.ok()) << policy.status().message();
  return *std::move(policy);
}

std::vector<Ordinal> kept(const Policy& policy, const test::Lane& lane, std::uint32_t quota) {
  return test::choose_with(policy, lane, test::score_of(policy, lane), quota);
}

// By role: prose, blank, delimiter, value, header, key.
RoleWeights paper(double key) {
  return {0.05, 0.05, 0.20, 0.70 - key, 0, key};
}

std::uint32_t sum(const RoleCounts& counts) {
  return std::accumulate(counts.begin(), counts.end(), 0u);
}

// What a lane keeps beside what every policy keeps.
RoleCounts counts_of(const test::Lane& lane, const std::vector<Ordinal>& ordinals) {
  RoleCounts counts{};
  for (const Ordinal i : ordinals) ++counts[index(lane.role[i])];
  return counts;
}

// A dense prompt with the roles given, a letter each (test/roles/shown.h), and its own scores.
test::Lane lane_of(const std::string& letters, std::vector<float> tap) {
  test::Lane lane{.tap = std::move(tap), .window_rows = 1};
  lane.structured = 1;
  for (Position i = 0; i < letters.size(); ++i) {
    lane.position.push_back(i);
    lane.role.push_back(static_cast<Role>(std::string("p_dvhk").find(letters[i])));
  }
  return lane;
}

TEST(RoleQuotas, SharesByWeightAndLargestRemainder) {
  EXPECT_EQ(role_quotas(paper(0.02), {999, 999, 999, 999, 999, 999}, 100),
            (RoleCounts{5, 5, 20, 68, 0, 2}));
  // .35 .35 1.4 4.76 .14 of 7: 1 and 4, and one more for .76 and .4 each.
  EXPECT_EQ(role_quotas(paper(0.02), {999, 999, 999, 999, 999, 999}, 7),
            (RoleCounts{0, 0, 2, 5, 0, 0}));
  // .1 .1 .4 1.36 .04 of 2: the second goes to the delimiters.
  EXPECT_EQ(role_quotas(paper(0.02), {9, 9, 9, 9, 9, 9}, 2), (RoleCounts{0, 0, 1, 1, 0, 0}));
}

TEST(RoleQuotas, WhatARoleCannotUseGoesToTheOthers) {
  // 68 of 100 for 10 values: 58 are shared by 2 : 20 : 5 : 5, 3.625 36.25 9.0625 9.0625.
  EXPECT_EQ(role_quotas(paper(0.02), {999, 999, 999, 10, 999, 999}, 100),
            (RoleCounts{14, 14, 56, 10, 0, 6}));
  EXPECT_EQ(role_quotas(paper(0), {3, 0, 4, 5, 50, 60}, 100), (RoleCounts{3, 0, 4, 5, 0, 0}))
      << "a role without a weight gets nothing";
  EXPECT_EQ(role_quotas({}, {9, 9, 9, 9, 9, 9}, 5), RoleCounts{});
}

TEST(RoleQuotas, GrantWhatThereIsAndNoMore) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 3000; ++round) {
    RoleWeights weights{};
    RoleCounts sizes{};
    std::uint64_t eligible = 0;
    for (std::size_t r = 0; r < kRoles; ++r) {
      weights[r] = random() % 3 == 0 ? 0 : static_cast<double>(random() % 100) / 100;
      sizes[r] = static_cast<std::uint32_t>(random() % (random() % 3 == 0 ? 5 : 1000));
      eligible += weights[r] > 0 ? sizes[r] : 0;
    }
    const auto entries = static_cast<std::uint32_t>(random() % 3000);
    const RoleCounts granted = role_quotas(weights, sizes, entries);
    ASSERT_EQ(sum(granted), std::min<std::uint64_t>(entries, eligible));
    for (std::size_t r = 0; r < kRoles; ++r) {
      ASSERT_LE(granted[r], sizes[r]);
      ASSERT_TRUE(weights[r] > 0 || granted[r] == 0);
    }
  }
}

TEST(RoleConditional, KeepsTheBestOfEachRole) {
  //                                  0123456789
  const test::Lane lane = lane_of("dkdvvdkdvvd", {9, 9, 1, 2, 5, 3, 9, 9, 7, 1, 4});
  const std::string bare = ",pool=1,sinks=0,recent=0";
  // 3.78 values, .11 keys, 1.11 delimiters.
  EXPECT_EQ(kept(make("role-conditional:key=0.02" + bare), lane, 5),
            (std::vector<Ordinal>{0, 3, 4, 8, 9}));
  // 1.67, 2.22, 1.11.
  EXPECT_EQ(kept(make("role-conditional:key=0.4" + bare), lane, 5),
            (std::vector<Ordinal>{0, 1, 4, 6, 8}));
  EXPECT_EQ(kept(make("snapkv-max7:pool=1,sinks=0,recent=0"), lane, 5),
            (std::vector<Ordinal>{0, 1, 6, 7, 8}));
}

TEST(RoleConditional, EqualScoresKeepTheOlderOfARole) {
  const test::Lane lane = lane_of("vvvvvvvvvv", std::vector<float>(10, 1));
  EXPECT_EQ(kept(make("role-conditional:sinks=0,recent=2"), lane, 5),
            (std::vector<Ordinal>{0, 1, 2, 8, 9}));
}

TEST(RoleConditional, WithoutAWeightAKeyStaysOnlyWhereNothingElseIsLeft) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  const Policy policy = make("role-conditional:key=0,least=0,sinks=0,recent=0,score=knorm");
  test::Lane lane = test::random_lane(random, 400);
  lane.prompt_end = 1u << 30, lane.structured = 1;
  const RoleCounts sizes = counts_of(lane, [] {
    std::vector<Ordinal> all(400);
    std::iota(all.begin(), all.end(), 0u);
    return all;
  }());
  const std::uint32_t others = 400 - sizes[index(Role::kKey)] - sizes[index(Role::kHeader)];
  for (const std::uint32_t quota : {1u, 50u, 200u, others - 1, others}) {
    EXPECT_EQ(counts_of(lane, kept(policy, lane, quota))[index(Role::kKey)], 0u) << quota;
  }
  const RoleCounts more = counts_of(lane, kept(policy, lane, others + 7));
  EXPECT_EQ(more[index(Role::kKey)] + more[index(Role::kHeader)], 7u);
}

// The choice depends on the order within each role alone.
TEST(RoleConditional, RescalingTheScoresOfARoleChangesNothing) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  const Policy policy = make("role-conditional:key=0.1,least=0");
  for (int round = 0; round < 50; ++round) {
    test::Lane lane = test::random_lane(random, 300);
    lane.structured = 1;
    const std::vector<float> score = test::score_of(policy, lane);
    std::vector<float> scaled = score;
    for (std::uint32_t i = 0; i < lane.live(); ++i) {
      if (lane.role[i] == Role::kValue && scaled[i] < 1e9f) scaled[i] *= 0x1p-10f;
    }
    const auto quota = static_cast<std::uint32_t>(1 + random() % 299);
    EXPECT_EQ(test::choose_with(policy, lane, score, quota),
              test::choose_with(policy, lane, scaled, quota));
  }
}

TEST(RoleConditional, OneRoleIsThePlainChoice) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  test::Lane lane = test::random_lane(random, 300);
  lane.prompt_end = 1u << 30, lane.structured = 1;
  lane.role.assign(300, Role::kValue);
  for (const std::uint32_t quota : {40u, 80u, 299u}) {
    EXPECT_EQ(kept(make("role-conditional:score=knorm"), lane, quota),
              kept(make("knorm"), lane, quota));
  }
}

TEST(RoleConditional, TextsWithoutStructureAreLeftToTheScore) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  test::Lane lane = test::random_lane(random, 300);
  lane.prompt_end = 1u << 30;
  const Policy roles = make("role-conditional:score=knorm"), plain = make("knorm");
  lane.structured = 0.49f;
  EXPECT_EQ(kept(roles, lane, 100), kept(plain, lane, 100));
  lane.structured = 0.5f;
  EXPECT_NE(kept(roles, lane, 100), kept(plain, lane, 100));
}

TEST(RoleConditional, TheAnswerStaysAsLongAsItFits) {
  test::Lane lane = lane_of("dkdvvdkdvvpppp", std::vector<float>(14, 1));
  lane.prompt_end = 10;
  EXPECT_EQ(kept(make("role-conditional:sinks=1,recent=2"), lane, 7),
            (std::vector<Ordinal>{0, 3, 4, 10, 11, 12, 13}));
  EXPECT_EQ(kept(make("role-conditional:sinks=1,recent=2"), lane, 4),
            (std::vector<Ordinal>{0, 11, 12, 13}));
}

TEST(RoleConditional, ShuffledRolesAreOtherRolesOfTheSameCounts) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  test::Lane lane = test::random_lane(random, 300);
  lane.prompt_end = 1u << 30, lane.structured = 1;
  test::Lane other = lane;
  other.layer = lane.layer + 1;
  const std::string tail = ",sinks=0,recent=0,score=knorm";
  const Policy shuffled = make("role-conditional:shuffle=7" + tail);
  const std::vector<Ordinal> first = kept(shuffled, lane, 100);
  EXPECT_EQ(first, kept(shuffled, other, 100)) << "dealt alike in every lane";
  EXPECT_NE(first, kept(make("role-conditional:shuffle=8" + tail), lane, 100));
  EXPECT_NE(first, kept(make("role-conditional" + (":least=0.5" + tail)), lane, 100));
}

TEST(RoleControl, FairGivesEveryRoleItsShare) {
  const test::Lane lane = lane_of("kkkkvvvvvvvvdddd", std::vector<float>(16, 1));
  EXPECT_EQ(counts_of(lane, kept(make("role-control:rule=fair,sinks=0,recent=0"), lane, 8)),
            (RoleCounts{0, 0, 2, 4, 0, 2}));
}

TEST(RoleControl, ABannedRoleGoesFirst) {
  const test::Lane lane = lane_of("kvdkvdkvd", {9, 1, 5, 9, 2, 6, 9, 3, 7});
  const std::string tail = ",score=h2o,sinks=0,recent=0";
  EXPECT_EQ(kept(make("role-control:rule=ban-key" + tail), lane, 4),
            (std::vector<Ordinal>{2, 5, 7, 8}));
  EXPECT_EQ(kept(make("role-control:rule=ban-delimiter" + tail), lane, 4),
            (std::vector<Ordinal>{0, 3, 6, 7}));
  EXPECT_EQ(kept(make("role-control:rule=ban-value" + tail), lane, 7),
            (std::vector<Ordinal>{0, 2, 3, 5, 6, 7, 8}));
}

TEST(RolePolicies, NeedWhatTheyWrapAndTheRoles) {
  const Policy policy = make("role-conditional:score=snapkv-ahead,length=4,window=32");
  EXPECT_TRUE(policy.needs.roles);
  EXPECT_EQ(policy.needs.window, 32u);
  const Policy shared = make("role-conditional:score=adakv,base=snapkv-ahead,floor=0.3");
  EXPECT_TRUE(shared.allocate != nullptr) << "Ada-KV divides, roles choose";
  EXPECT_TRUE(shared.choose != nullptr);
  EXPECT_NE(make_policy("role-conditional:score=tova").status().message().find("score must be one"),
            std::string::npos);
}

TEST(SnapKvMax7, TheLargestNeighbourCountsAndNoWindowIsKept) {
  test::Lane lane = lane_of("pppppppp", {10, 0, 0, 0, 0, 20, 1, 2});
  lane.window_rows = 2, lane.after_window = 1;
  using policies::kOwnWindow;
  EXPECT_EQ(test::score_of(make("snapkv-max7:pool=3"), lane),
            (std::vector<float>{10, 10, 0, 0, 20, 20, 20, kOwnWindow}));
  EXPECT_EQ(test::score_of(make("snapkv-max7:pool=1"), lane),
            (std::vector<float>{10, 0, 0, 0, 0, 20, 1, kOwnWindow}));
}

TEST(SnapKvMax7, EachHeadIsPooledBeforeTheirMean) {
  test::Lane lane = lane_of("pppp", {0, 0, 0, 0});
  lane.group = 2;
  lane.tap_per_head = {4, 0, 0, 0, 0, 0, 0, 8};
  EXPECT_TRUE(make("snapkv-max7:heads=each").needs.per_head);
  EXPECT_EQ(test::score_of(make("snapkv-max7:heads=each,pool=3"), lane),
            (std::vector<float>{4, 4, 8, 8}))
      << "a sum is as good as a mean";
  EXPECT_EQ(make("snapkv-max7:heads=max").needs.group, Reduce::kMax);
}

}  // namespace
}  // namespace quire
