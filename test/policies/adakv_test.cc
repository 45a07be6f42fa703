// Goal: Ada-KV divides a layer's entries over its lanes as algorithm 1 of arXiv 2407.11550 does.
// Method: cases by eye, then random layers against a global ranking in its plainest form.  A
// failure prints its seed; rerun with QUIRE_SEED=<seed>.

#include <gtest/gtest.h>

#include <numeric>

#include "policies/lane.h"
#include "support/seed.h"

namespace quire {
namespace {

using Counts = std::vector<std::uint32_t>;
using Layer = std::vector<std::vector<float>>;

Policy make(std::string_view spec) {
  Result<Policy> policy = make_policy(spec);
  EXPECT_TRUE(policy.ok()) << policy.status().message();
  return *std::move(policy);
}

Counts allocate(const Policy& policy, const Layer& scores, std::uint32_t entries) {
  const std::vector<std::span<const float>> spans(scores.begin(), scores.end());
  Counts counts(scores.size(), ~0u);
  const std::vector<EntryView> lanes(scores.size());
  policy.allocate(policy.protect, lanes, spans, entries, counts);
  return counts;
}

TEST(AdaKv, TheLaneWithTheBetterEntriesGetsMore) {
  const Policy policy = make("adakv:base=h2o,floor=0.25,sinks=0,recent=0");
  // 8 entries over 2 lanes: 1 forced in each, the best 6 of the rest are all in lane 0.
  const Layer scores = {{9, 9, 9, 9, 9, 9, 9, 9}, {1, 1, 1, 1, 1, 1, 1, 1}};
  EXPECT_EQ(allocate(policy, scores, 8), (Counts{7, 1}));
}

TEST(AdaKv, ProtectedEntriesComeFirstInEveryLane) {
  const Policy policy = make("adakv:base=h2o,floor=0,sinks=1,recent=2");
  const Layer scores = {{0, 9, 9, 9, 9, 9, 0, 0}, {0, 1, 1, 1, 1, 1, 0, 0}};
  EXPECT_EQ(allocate(policy, scores, 10), (Counts{7, 3}));
}

TEST(AdaKv, FloorOneIsTheBase) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (const char* base : {"snapkv", "snapkv-ahead", "h2o", "h2o-age", "knorm", "random"}) {
    const Policy ada = make(std::string("adakv:floor=1,base=") + base);
    const Policy plain = make(base);
    EXPECT_EQ(ada.needs.tap, plain.needs.tap);
    EXPECT_EQ(ada.needs.norms, plain.needs.norms);
    Layer scores;
    for (int h = 0; h < 3; ++h) {
      const test::Lane lane = test::random_lane(random, 300);
      scores.push_back(test::score_of(ada, lane));
      ASSERT_EQ(scores.back(), test::score_of(plain, lane)) << base;
    }
    for (std::uint32_t keep : {70u, 100u, 299u}) {
      EXPECT_EQ(allocate(ada, scores, 3 * keep), (Counts{keep, keep, keep})) << base;
    }
  }
}

TEST(AdaKv, QuotasBelowTheProtectionAreEqualShares) {
  const Policy policy = make("adakv");
  EXPECT_EQ(allocate(policy, Layer(3, std::vector<float>(100, 1)), 30), (Counts{10, 10, 10}));
  EXPECT_EQ(allocate(policy, Layer(3, std::vector<float>(100, 1)), 4), (Counts{1, 1, 2}));
}

TEST(AdaKv, BaseOptionsPassThrough) {
  EXPECT_EQ(make("adakv:base=snapkv,window=32").needs.window, 32u);
  EXPECT_FALSE(make_policy("adakv:base=knorm,window=32").ok());
  EXPECT_FALSE(make_policy("adakv:base=adakv").ok());
}

TEST(AdaKv, AgreesWithAGlobalRankingOnRandomLayers) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const auto lanes = 1 + random() % 5, sinks = random() % 4, recent = random() % 6;
    const double floor = static_cast<double>(random() % 5) / 4;
    const Policy policy =
        make("adakv:base=h2o,floor=" + std::to_string(floor) + ",sinks=" + std::to_string(sinks) +
             ",recent=" + std::to_string(recent));
    Layer scores(lanes);
    std::uint32_t live = 0;
    for (auto& lane : scores) {
      lane.resize(10 + random() % 40);
      for (float& s : lane) s = std::uniform_real_distribution<float>(0, 1)(random);
      live += static_cast<std::uint32_t>(lane.size());
    }
    const auto entries = static_cast<std::uint32_t>(1 + random() % live);
    const Counts counts = allocate(policy, scores, entries);
    ASSERT_EQ(std::accumulate(counts.begin(), counts.end(), 0u), entries);

    const double share = double{1} * entries / static_cast<double>(lanes);
    Counts forced(lanes);
    std::vector<std::pair<float, std::size_t>> rest;
    for (std::size_t h = 0; h < lanes; ++h) {
      const auto size = static_cast<std::uint32_t>(scores[h].size());
      ASSERT_LE(counts[h], size);
      const auto fixed = std::min<std::uint32_t>(size, static_cast<std::uint32_t>(sinks + recent));
      forced[h] = std::min(size, std::max(fixed, static_cast<std::uint32_t>(floor * share)));
      std::vector<float> middle(scores[h].begin() + static_cast<std::ptrdiff_t>(sinks),
                                scores[h].end() - static_cast<std::ptrdiff_t>(recent));
      std::sort(middle.rbegin(), middle.rend());
      for (std::size_t i = forced[h] - fixed; i < middle.size(); ++i)
        rest.push_back({middle[i], h});
    }
    const std::uint32_t sum = std::accumulate(forced.begin(), forced.end(), 0u);
    if (sum > entries) continue;  // equal shares, checked above
    std::sort(rest.rbegin(), rest.rend());
    for (std::uint32_t i = 0; i < entries - sum; ++i) ++forced[rest[i].second];
    ASSERT_EQ(counts, forced);
  }
}

}  // namespace
}  // namespace quire
