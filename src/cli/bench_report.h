// What a benchmark says: a table that grows row by row, or one JSON object.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench_check.h"
#include "cli/bench_limits.h"
#include "cli/bench_measure.h"

namespace quire::cli {

struct BenchReport {
  MachineLimits limits;
  model::ModelInfo model;
  CacheOptions cache;
  std::string attention_isa, chunk_isa, policy;
  model::MatrixTraffic matrices;
  std::uint32_t chunk = 0;
  std::optional<std::string> peer_system_info;  // none: no peer
  std::optional<SameText> same_text;
  std::vector<RowResult> rows;
  std::vector<std::string> left_out;  // "pp4096: why"

  double bandwidth_share(const RowResult& row) const;
  double peak_share(const RowResult& row) const;
};

// {quire_json: 1, machine, model, rows: [{test, depth, batch, tok_s, p10, bandwidth_share,
// peak_share, peers: {llama: {tok_s, ratio, ratio_p10}}, ...}], ...}
nlohmann::ordered_json bench_json(const BenchReport& report);

// For people: what is compared on what, then a line per row, then what the marks mean.
void print_bench_head(const BenchReport& report);
void print_bench_row(const BenchReport& report, const RowResult& row);
void print_bench_notes(const BenchReport& report);

}  // namespace quire::cli
