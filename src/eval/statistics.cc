#include "eval/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "eval/random.h"

namespace quire::eval {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kZ95 = 1.959963984540054;  // 97.5 % quantile of the normal distribution

double share_of(const Share& sum) {
  return sum.whole > 0 ? sum.part / sum.whole : kNan;
}

}  // namespace

double mean(std::span<const double> values) {
  if (values.empty()) return kNan;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::span<const double> values) {
  return quantile(values, 0.5);
}

double quantile(std::span<const double> values, double q) {
  if (values.empty()) return kNan;
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const double at = std::clamp(q, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

Interval wilson(std::size_t successes, std::size_t trials) {
  if (trials == 0) return {0, 1};
  const auto n = static_cast<double>(trials), p = static_cast<double>(successes) / n;
  const double z2 = kZ95 * kZ95, scale = 1 + z2 / n;
  const double centre = (p + z2 / (2 * n)) / scale;
  const double half = kZ95 / scale * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n));
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

Estimate estimate_median(std::span<const double> values) {
  if (values.empty()) return {.value = kNan, .interval = {kNan, kNan}};
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const auto n = static_cast<double>(sorted.size());
  const double half = kZ95 * std::sqrt(n) / 2;
  const double low = std::max(0.0, std::floor(n / 2 - half));
  const double high = std::min(n - 1, std::ceil(n / 2 + half));
  return {
      .value = median(sorted),
      .interval = {sorted[static_cast<std::size_t>(low)], sorted[static_cast<std::size_t>(high)]},
      .clusters = sorted.size(),
      .items = sorted.size()};
}

Estimate bootstrap_mean(std::span<const std::vector<double>> clusters,
                        const BootstrapOptions& options) {
  std::vector<Share> sums;
  for (const std::vector<double>& cluster : clusters) {
    if (cluster.empty()) continue;
    sums.push_back({std::accumulate(cluster.begin(), cluster.end(), 0.0),
                    static_cast<double>(cluster.size()), cluster.size()});
  }
  return bootstrap_share(sums, options);
}

Estimate bootstrap_share(std::span<const Share> clusters, const BootstrapOptions& options) {
  Share all{.items = 0};
  const auto add = [](Share& sum, const Share& more) {
    sum.part += more.part;
    sum.whole += more.whole;
    sum.items += more.items;
  };
  for (const Share& cluster : clusters) add(all, cluster);
  Estimate estimate{.value = share_of(all),
                    .interval = {kNan, kNan},
                    .clusters = clusters.size(),
                    .items = all.items};
  if (clusters.size() < 2) return estimate;

  const Stream stream(options.seed, "bootstrap");
  std::vector<double> shares;
  for (std::uint32_t r = 0; r < options.resamples; ++r) {
    const Stream draw = stream.of(r);
    Share sum;
    for (std::size_t i = 0; i < clusters.size(); ++i) {
      add(sum, clusters[draw.below(clusters.size(), i)]);
    }
    if (sum.whole > 0) shares.push_back(share_of(sum));
  }
  estimate.interval = {quantile(shares, 0.025), quantile(shares, 0.975)};
  return estimate;
}

}  // namespace quire::eval
