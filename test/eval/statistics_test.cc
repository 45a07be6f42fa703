// Goal: statistics agree with published values and hold their promise of coverage.
// Method: hand-computed and textbook numbers; the bootstrap on many simulated samples whose mean is
// known.

#include "eval/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "eval/random.h"

namespace quire::eval {
namespace {

TEST(Statistics, AMedianLiesBetweenOrderStatistics) {
  std::vector<double> values;
  for (int i = 100; i > 0; --i) values.push_back(i);
  const Estimate estimate = estimate_median(values);
  EXPECT_DOUBLE_EQ(estimate.value, 50.5);
  EXPECT_DOUBLE_EQ(estimate.interval.low, 41) << "the 41st; 50 - 9.8 are below";
  EXPECT_DOUBLE_EQ(estimate.interval.high, 61);
  EXPECT_EQ(estimate.clusters, 100u);
  const Estimate one = estimate_median(std::vector<double>{3});
  EXPECT_EQ(one.interval.low, 3);
  EXPECT_EQ(one.interval.high, 3);
  EXPECT_TRUE(std::isnan(estimate_median({}).value));
}

TEST(Statistics, QuantilesAreThoseOfNumPy) {
  const std::vector<double> values = {7, 1, 4, 2};
  EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(median(values), 3);
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 6.1);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 7);
  EXPECT_DOUBLE_EQ(mean(values), 3.5);
  EXPECT_TRUE(std::isnan(median({})));
  EXPECT_TRUE(std::isnan(mean({})));
}

// Newcombe 1998, Statistics in Medicine 17, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
TEST(Statistics, WilsonIntervalsAreThoseOfNewcombe) {
  const auto expect = [](std::size_t r, std::size_t n, double low, double high) {
    const Interval interval = wilson(r, n);
    EXPECT_NEAR(interval.low, low, 5e-5) << r << " of " << n;
    EXPECT_NEAR(interval.high, high, 5e-5) << r << " of " << n;
  };
  expect(81, 263, 0.2553, 0.3662);
  expect(15, 148, 0.0624, 0.1605);
  expect(0, 20, 0.0000, 0.1611);
  expect(1, 29, 0.0061, 0.1718);
  EXPECT_EQ(wilson(0, 0).low, 0);
  EXPECT_EQ(wilson(0, 0).high, 1);
}

TEST(Bootstrap, CoversAKnownMeanAboutNineteenTimesInTwenty) {
  constexpr std::uint32_t kSamples = 400;
  const Stream stream(11, "coverage");
  std::uint32_t covered = 0;
  for (std::uint32_t s = 0; s < kSamples; ++s) {
    // Sums of uniform numbers: mean 3, nearly normal.
    std::vector<std::vector<double>> clusters(40);
    for (std::size_t c = 0; c < clusters.size(); ++c) {
      double sum = 0;
      for (std::uint64_t i = 0; i < 6; ++i) sum += stream.of(s).of(c).unit(i);
      clusters[c] = {sum};
    }
    const Estimate e = bootstrap_mean(clusters, {.resamples = 500, .seed = s});
    covered += e.interval.low <= 3 && 3 <= e.interval.high ? 1 : 0;
    EXPECT_LE(e.interval.low, e.value);
    EXPECT_GE(e.interval.high, e.value);
  }
  EXPECT_GT(covered, kSamples * 89 / 100);
  EXPECT_LT(covered, kSamples * 99 / 100);
}

TEST(Bootstrap, RepeatedItemsOfADocumentAddNoCertainty) {
  std::vector<std::vector<double>> once, often;
  for (std::uint64_t c = 0; c < 12; ++c) {
    const double value = Stream(5).unit(c);
    once.push_back({value});
    often.emplace_back(20, value);
  }
  const Estimate a = bootstrap_mean(once), b = bootstrap_mean(often);
  EXPECT_NEAR(a.interval.low, b.interval.low, 1e-12);
  EXPECT_NEAR(a.interval.high, b.interval.high, 1e-12);
  EXPECT_EQ(a.clusters, b.clusters);
  EXPECT_EQ(b.items, 240u);
}

TEST(Bootstrap, SaysNothingAboutWhatItHasNotSeen) {
  EXPECT_TRUE(std::isnan(bootstrap_mean({}).value));
  const std::vector<std::vector<double>> one = {{2, 4}, {}};
  const Estimate e = bootstrap_mean(one);
  EXPECT_EQ(e.value, 3);
  EXPECT_EQ(e.clusters, 1u);
  EXPECT_TRUE(std::isnan(e.interval.low));
}

TEST(Bootstrap, AShareIsOfSums) {
  const std::vector<Share> shares = {{1, 10, 3}, {4, 10, 2}};
  const Estimate e = bootstrap_share(shares);
  EXPECT_DOUBLE_EQ(e.value, 0.25);
  EXPECT_DOUBLE_EQ(e.interval.low, 0.1);
  EXPECT_DOUBLE_EQ(e.interval.high, 0.4);
  EXPECT_EQ(e.clusters, 2u);
  EXPECT_EQ(e.items, 5u);
  // Of nothing there is no share; samples without a whole are left out.
  const std::vector<Share> none = {{1, 0, 1}, {2, -1, 1}};
  EXPECT_TRUE(std::isnan(bootstrap_share(none).value));
  const std::vector<Share> some = {{1, 0, 1}, {1, 4, 1}};
  EXPECT_DOUBLE_EQ(bootstrap_share(some).value, 0.5);
  EXPECT_DOUBLE_EQ(bootstrap_share(some).interval.low, 0.25);
}

TEST(RandomStream, IsUniformAndDependsOnItsNames) {
  constexpr std::uint64_t kBins = 64, kDraws = 64'000;
  std::vector<double> count(kBins, 0);
  const Stream stream(1, "chi square");
  for (std::uint64_t i = 0; i < kDraws; ++i) ++count[stream.below(kBins, i)];
  double chi = 0;
  for (const double c : count) chi += (c - 1000) * (c - 1000) / 1000;
  EXPECT_GT(chi, 35);  // 63 degrees of freedom: 99.9 % lies between
  EXPECT_LT(chi, 104);
  EXPECT_NE(Stream(1, "a").at(0), Stream(1, "b").at(0));
  EXPECT_NE(Stream(1, "a").at(0), Stream(2, "a").at(0));
  EXPECT_NE(Stream(1).of(0).at(0), Stream(1).of(1).at(0));
  EXPECT_EQ(Stream(1).of(3).at(9), Stream(1).of(3).at(9));
}

}  // namespace
}  // namespace quire::eval
