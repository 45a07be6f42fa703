#include "cli/bench_measure.h"

#include <algorithm>
#include <cmath>

namespace quire::cli {
namespace {

// The value at share `q` of the sorted values, nearest rank.
double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(std::lround(q * static_cast<double>(values.size() - 1)))];
}

// Runs one arm alone: the other one's threads are parked.
Result<double> rate_of(Arm& arm, const BenchRow& row) {
  arm.resume();
  const Result<double> seconds = arm.run(row);
  arm.pause();
  if (!seconds.ok()) return seconds.status();
  return static_cast<double>(row.work()) / *seconds;
}

Status prepare(Arm& arm, const BenchRow& row, const char* name, const MeasureOptions& options) {
  arm.resume();
  const Status status = arm.prepare(row, [&](std::uint64_t done, std::uint64_t total) {
    if (!options.on_progress) return;
    options.on_progress(static_cast<double>(done) / static_cast<double>(total),
                        row.name() + ": " + name + " reads");
  });
  arm.pause();
  return status;
}

Status measure_pairs(Arm& ours, Arm* peer, const MeasureOptions& options, RowResult& result) {
  result.ours.clear();
  result.peer.clear();
  for (std::uint32_t pair = 0; pair < options.pairs; ++pair) {
    if (pair > 0 && options.deadline && std::chrono::steady_clock::now() > *options.deadline) break;
    if (options.on_progress) {
      options.on_progress(static_cast<double>(pair) / options.pairs, result.row.name());
    }
    // The order alternates, so that neither always runs on what the other left in the caches.
    for (const bool first : {true, false}) {
      const bool own = first == (pair % 2 == 0);
      if (!own && peer == nullptr) continue;
      const Result<double> rate = rate_of(own ? ours : *peer, result.row);
      if (!rate.ok()) return rate.status();
      (own ? result.ours : result.peer).push_back(*rate);
    }
  }
  return {};
}

// Entries that a row at `position` sees, in a layer with this window.
double visible(const LayerShape& layer, double position) {
  return layer.window == 0 ? position : std::min<double>(layer.window, position);
}

}  // namespace

double median(const std::vector<double>& values) {
  return quantile(values, 0.5);
}

double percentile10(const std::vector<double>& values) {
  return quantile(values, 0.1);
}

double RowResult::spread() const {
  const double middle = median(ours);
  return middle > 0 ? (quantile(ours, 0.9) - quantile(ours, 0.1)) / middle : 0;
}

std::vector<double> RowResult::ratios() const {
  std::vector<double> found;
  for (std::size_t i = 0; i < peer.size(); ++i) found.push_back(ours[i] / peer[i]);
  return found;
}

Result<RowResult> measure_row(const BenchRow& row, Arm& ours, Arm* peer,
                              const MeasureOptions& options) {
  RowResult result{.row = row};
  if (Status status = prepare(ours, row, "quire", options); !status.ok()) return status;
  if (peer != nullptr) {
    if (Status status = prepare(*peer, row, "libllama", options); !status.ok()) return status;
  }
  if (Status status = measure_pairs(ours, peer, options, result); !status.ok()) return status;
  if (options.repeat && result.wide()) {
    if (Status status = measure_pairs(ours, peer, options, result); !status.ok()) return status;
    result.repeated = true;
  }
  return result;
}

TokenCost cost_of(const BenchRow& row, const model::MatrixTraffic& matrices,
                  const CacheOptions& cache, std::uint32_t chunk) {
  const bool prefill = row.kind == BenchRow::Kind::kPrefill;
  const double tokens = row.tokens, batch = row.batch;
  // A step: a chunk of the prompt, or one token of each sequence.
  const double steps = prefill ? std::ceil(tokens / chunk) : tokens;
  const double heads = prefill ? 1 : tokens * batch;  // rows that the head computes
  const double before = row.keep > 0 ? row.keep : row.depth;
  TokenCost cost;
  cost.bytes = steps * static_cast<double>(matrices.layer_bytes) +
               (prefill ? 1 : steps) * static_cast<double>(matrices.head_bytes);
  cost.operations = 2 * (tokens * batch * static_cast<double>(matrices.layer_weights) +
                         heads * static_cast<double>(matrices.head_weights));
  for (const LayerShape& layer : cache.layers) {
    const double entry = layer.kv_heads * (layer.key_size * bytes_of(cache.key_type) +
                                           layer.value_size * bytes_of(cache.value_type));
    const double products = layer.query_heads * (layer.key_size + layer.value_size);
    const double seen = visible(layer, before + tokens / 2);  // on average
    const double read = prefill ? steps * seen : steps * batch * seen;
    cost.bytes += entry * (read + tokens * batch);
    cost.operations += 2 * products * tokens * batch * seen;
  }
  cost.bytes /= tokens * batch;
  cost.operations /= tokens * batch;
  return cost;
}

}  // namespace quire::cli
