// Goal: the statistics are what quire/gate.h says of weights, to the formula.
// Method: weights written by hand, and random ones against slow twins in double precision.
#include "cache/gate_statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "support/seed.h"

namespace quire {
namespace {

using Sets = std::vector<std::vector<Ordinal>>;

LaneReading with_sets(Sets sets) {
  return {.sets = std::move(sets)};
}

TEST(GateStatistics, ASetHasTheLargestAndOfEqualOnesTheOlder) {
  const std::vector<float> weights = {0.1f, 0.5f, 0.1f, 0.3f, 0.1f, 0.5f};
  EXPECT_EQ(largest(weights, 2), (std::vector<Ordinal>{1, 5}));
  EXPECT_EQ(largest(weights, 4), (std::vector<Ordinal>{0, 1, 3, 5}));
  EXPECT_EQ(largest(weights, 5), (std::vector<Ordinal>{0, 1, 2, 3, 5}));
  EXPECT_EQ(largest(weights, 9), (std::vector<Ordinal>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(largest({}, 3).empty());
}

TEST(GateStatistics, AgreementIsOneForEqualSetsAndZeroForDisjointOnes) {
  EXPECT_EQ(agreement(Sets{{1, 2, 3}, {1, 2, 3}, {1, 2, 3}}), 1);
  EXPECT_EQ(agreement(Sets{{1, 2}, {3, 4}, {5, 6}}), 0);
  EXPECT_EQ(jaccard(Sets{{1, 2, 3}}[0], Sets{{2, 3, 4}}[0]), 0.5);
  // Pairs: 1/3, 0, 1/3.
  EXPECT_DOUBLE_EQ(agreement(Sets{{1, 2}, {2, 3}, {3, 4}}), 2.0 / 9);
  EXPECT_EQ(agreement(Sets{{1, 2}}), 1);
}

TEST(GateStatistics, DIsOfTheFirstThirdLessTheLast) {
  const Sets equal = {{1, 2}, {1, 2}}, apart = {{1, 2}, {3, 4}};
  std::vector<std::vector<LaneReading>> lanes(7);
  for (std::uint32_t l = 0; l < 7; ++l) {
    if (!reads_layer(Statistic::kPageD, l, 7)) continue;
    lanes[l] = {with_sets(l < 2 ? equal : apart)};
  }
  EXPECT_EQ(lanes[2].size() + lanes[3].size() + lanes[4].size(), 0u) << "7 / 3 = 2 at each end";
  EXPECT_EQ(statistic_of(Statistic::kPageD, lanes), 1);
  std::ranges::reverse(lanes);
  EXPECT_EQ(statistic_of(Statistic::kPageD, lanes), -1);
  // Heads of one layer are of all its KV heads.
  lanes.assign(1, {with_sets({{1, 2}}), with_sets({{3, 4}})});
  EXPECT_EQ(statistic_of(Statistic::kPageD, lanes), 0) << "one layer is both";
}

TEST(GateStatistics, TheMiddleThirdIsWhatTheOthersLeave) {
  for (const auto& [layers, first, end] :
       {std::tuple{30u, 10u, 20u}, std::tuple{24u, 8u, 16u}, std::tuple{7u, 2u, 5u},
        std::tuple{2u, 1u, 2u}, std::tuple{1u, 0u, 1u}}) {
    EXPECT_EQ(middle_third(layers).first, first) << layers;
    EXPECT_EQ(middle_third(layers).end, end) << layers;
  }
}

TEST(GateStatistics, DIsInsideItsRangeAndKnowsNoOrderOfHeads) {
  std::mt19937_64 random(test::seed());
  for (int round = 0; round < 50; ++round) {
    const std::uint32_t layers = 1 + random() % 9, heads = 1 + random() % 6;
    std::vector<std::vector<LaneReading>> lanes(layers);
    for (std::vector<LaneReading>& layer : lanes) {
      for (std::uint32_t h = 0; h < heads; ++h) {
        std::set<Ordinal> set;
        while (set.size() < 8) set.insert(static_cast<Ordinal>(random() % 30));
        layer.push_back(with_sets({{set.begin(), set.end()}}));
      }
    }
    const double d = statistic_of(Statistic::kPageD, lanes);
    EXPECT_GE(d, -1);
    EXPECT_LE(d, 1);
    for (std::vector<LaneReading>& layer : lanes) std::ranges::shuffle(layer, random);
    EXPECT_NEAR(statistic_of(Statistic::kPageD, lanes), d, 1e-12);
  }
}

TEST(GateStatistics, TheControlKnowsNoLayers) {
  // Early heads agree, late ones do not: D is 1, whatever the entries are.
  std::mt19937_64 random(test::seed());
  double sum = 0, least = 1, most = -1;
  constexpr int kRounds = 400;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::vector<LaneReading>> lanes(6);
    const auto shared = static_cast<Ordinal>(random() % 1000);
    for (std::uint32_t layer = 0; layer < 6; ++layer) {
      for (Ordinal h = 0; h < 4; ++h) {
        lanes[layer].push_back(with_sets({{layer < 3 ? shared : 2000 + 4 * layer + h}}));
      }
    }
    EXPECT_EQ(statistic_of(Statistic::kPageD, lanes), 1);
    const double dealt = statistic_of(Statistic::kShuffledD, lanes);
    EXPECT_EQ(statistic_of(Statistic::kShuffledD, lanes), dealt) << "equal prompts, equal orders";
    sum += dealt;
    least = std::min(least, dealt);
    most = std::max(most, dealt);
  }
  EXPECT_NEAR(sum / kRounds, 0, 0.1);
  EXPECT_LT(least, 0);
  EXPECT_GT(most, 0);
}

// A lane of two heads whose middle entries are [4, 4 + middle).
struct Lane {
  std::vector<float> sum, square;
  LaneMoments moments;

  Lane(std::uint32_t middle, std::uint32_t rows) {
    const std::uint32_t live = middle + kGateSinks + rows;
    sum.assign(2 * live, 0.75f);
    square.assign(2 * live, 9);
    moments = {.sum = sum, .square = square, .group = 2, .live = live, .rows = rows};
  }
};

TEST(GateStatistics, RowVariationIsTheDeviationByTheMean) {
  Lane lane(2, 4);
  const std::uint32_t live = lane.moments.live;
  // Head 0: rows 1 1 1 1, and 0 0 0 4: deviations 0 and sqrt(3).  Head 1: one entry without weight.
  lane.sum[4] = 4, lane.square[4] = 4;
  lane.sum[5] = 4, lane.square[5] = 16;
  lane.sum[live + 4] = 0, lane.square[live + 4] = 0;
  lane.sum[live + 5] = 4, lane.square[live + 5] = 16;
  const double head0 = std::sqrt(3.0) / 2, head1 = std::sqrt(3.0);
  EXPECT_DOUBLE_EQ(read_lane(Statistic::kRowVariation, lane.moments).value, (head0 + head1) / 2);
}

TEST(GateStatistics, LogMaxMeanIsOfThePooledScoreOfBothHeads) {
  Lane lane(7, 4);
  const std::uint32_t live = lane.moments.live;
  for (std::uint32_t i = 0; i < 7; ++i) lane.sum[4 + i] = lane.sum[live + 4 + i] = 0;
  lane.sum[4 + 3] = 3;
  lane.sum[live + 4 + 3] = 2;
  // 5 over 5 neighbours around entry 3, whole at 2, 3, 4, and of 4 neighbours at 1 and 5.
  const double mean = (3 * 1.0 + 2 * 5.0 / 4) / 7;
  EXPECT_DOUBLE_EQ(read_lane(Statistic::kLogMaxMean, lane.moments).value, std::log(1.25 / mean));
  for (std::uint32_t i = 0; i < 7; ++i) lane.sum[4 + i] = lane.sum[live + 4 + i] = 1;
  EXPECT_NEAR(read_lane(Statistic::kLogMaxMean, lane.moments).value, 0, 1e-12) << "flat";
}

TEST(GateStatistics, NamesAreReadAsWritten) {
  for (const StatisticInfo& info : kStatistics) {
    EXPECT_EQ(parse_statistic(info.name).has_value(), !info.control) << info.name;
    EXPECT_EQ(parse_statistic(info.name).value_or(info.statistic), info.statistic);
    EXPECT_EQ(info_of(info.statistic).name, info.name);
  }
  EXPECT_FALSE(parse_statistic("entropy"));
}

}  // namespace
}  // namespace quire
