// Numbers that summarise measurements, with how far they may be off.  Pure: equal inputs give equal
// outputs on every machine, in any order, on any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace quire::eval {

// Of no values: NaN.
double mean(std::span<const double> values);
double median(std::span<const double> values);
// Linear between order statistics (Hyndman and Fan's type 7, NumPy's default); q in [0, 1].
double quantile(std::span<const double> values, double q);

struct Interval {
  double low = 0, high = 0;
};

// Wilson's score interval of a proportion at 95 % (E. B. Wilson 1927).  Of no trials: [0, 1].
Interval wilson(std::size_t successes, std::size_t trials);

// A mean over all items, with a 95 % percentile bootstrap interval that draws whole clusters: what
// was measured on one document is not independent, documents are.
struct Estimate {
  double value = 0;
  Interval interval;
  std::size_t clusters = 0, items = 0;  // clusters: those with an item
};

// A median with the order statistics that hold it at 95 %, whatever the values' distribution (by
// the normal limit of the binomial).  Every value is its own cluster.  Of no values: NaN.
Estimate estimate_median(std::span<const double> values);

struct BootstrapOptions {
  std::uint32_t resamples = 2000;
  std::uint64_t seed = 1;
};

// Of no items: NaN throughout.  Of one cluster nothing is known about others: the interval is NaN.
Estimate bootstrap_mean(std::span<const std::vector<double>> clusters,
                        const BootstrapOptions& options = {});

// A part over a whole, of one cluster: their sums over its items.
struct Share {
  double part = 0, whole = 0;
  std::size_t items = 1;
};
// Sum of the parts over the sum of the wholes, with the same interval.  NaN where the wholes add up
// to nothing or less: there is no share then.
Estimate bootstrap_share(std::span<const Share> clusters, const BootstrapOptions& options = {});

}  // namespace quire::eval
