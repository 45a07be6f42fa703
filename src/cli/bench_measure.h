// Interleaved pairs, and the numbers of a row.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench_arm.h"
#include "cli/bench_limits.h"
#include "model/traffic.h"

namespace quire::cli {

// A row whose own times spread further than this is measured again, once.
constexpr double kWideSpread = 0.10;

struct RowResult {
  BenchRow row;
  std::vector<double> ours, peer;  // tokens a second, one per pair; peer: empty without one
  bool repeated = false;

  double spread() const;  // (90th - 10th percentile) / median, of ours
  bool wide() const { return spread() > kWideSpread; }
  std::vector<double> ratios() const;  // ours / peer, pair by pair
};

double median(const std::vector<double>& values);
double percentile10(const std::vector<double>& values);

struct MeasureOptions {
  std::uint32_t pairs = 7;
  bool repeat = true;
  // Begin no pair but the first after this.
  std::optional<std::chrono::steady_clock::time_point> deadline{};
  std::function<void(double share, const std::string& doing)> on_progress{};
};

// `peer` may be null.  Both are paused before and after.
Result<RowResult> measure_row(const BenchRow& row, Arm& ours, Arm* peer,
                              const MeasureOptions& options);

// What one token of the row costs at the least: every matrix read once a step, K and V of what
// attention sees read once a step, new K and V written; two operations for every weight and for
// every value of K and V that a query head meets.
struct TokenCost {
  double bytes = 0, operations = 0;
};
TokenCost cost_of(const BenchRow& row, const model::MatrixTraffic& matrices,
                  const CacheOptions& cache, std::uint32_t chunk);

}  // namespace quire::cli
