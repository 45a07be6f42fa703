// What `quire bench serve` says: a table, one JSON object, plots.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/bench_serve_flags.h"
#include "cli/bench_serve_run.h"
#include "cli/bench_serve_summary.h"
#include "cli/open_engine.h"

namespace quire::cli {

struct ServeReport {
  std::string model, quantization, cpu;
  std::uint32_t threads = 0;
  CacheOptions cache;
  ServeFlags flags;
  ServeRecord record;
  ServeSummary summary;
};
ServeReport report_of(const Engine& engine, const ServeFlags& flags, ServeRecord record);

nlohmann::ordered_json serve_json(const ServeReport& report);
void print_serve(const ServeReport& report);
// serve.json, requests.svg, bytes.svg and latency.svg.  kIo names the file.
Status write_serve(const ServeReport& report, const std::string& folder);

}  // namespace quire::cli
