// What `quire eval policies` says: JSON, CSV, a table for a terminal, and a page with plots.
#pragma once

#include <string>
#include <vector>

#include "eval/log.h"
#include "eval/summary.h"

namespace quire::eval {

struct PoliciesReport {
  Json header;  // the log's: model and settings
  std::uint32_t inputs = 0;
  Summary summary;
};

// {quire_json: 1, model, options, inputs, cells: [...], checks: [...]}
Json json_of(const PoliciesReport& report);
// A line per cell and measure.
std::string csv_of(const PoliciesReport& report);
// For a terminal: per task a line per policy, a column per share, its main measure.
std::string table_of(const PoliciesReport& report);
// Writes policies.md, policies.csv and plots/*.svg into the directory, which is made.
Status write_report(const PoliciesReport& report, const std::string& directory);

// A file as a whole; kIo.
Status write_file(const std::string& path, const std::string& text);

}  // namespace quire::eval
