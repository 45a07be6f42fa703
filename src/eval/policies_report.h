// What `quire eval policies` says: JSON, CSV, a table for a terminal, and a page with plots.
#pragma once

#include <string>
#include <vector>

#include "eval/log.h"
#include "eval/summary.h"

namespace quire::eval {

struct PoliciesReport {
  Json header;             // the log's: model and settings
  std::string model_file;  // without its folder: what its section of a page is called
  std::uint32_t inputs = 0;
  Summary summary;
  std::vector<InputResult> results;
};

// {quire_json: 1, model, options, inputs, cells: [...], checks: [...]}
Json json_of(const PoliciesReport& report);
// A line per cell and measure.
std::string csv_of(const PoliciesReport& report);
// For a terminal: per task a line per policy, a column per share, its main measures.
std::string table_of(const PoliciesReport& report);
// Writes policies.md, policies.csv and plots/*.svg into the directory, which is made.
Status write_report(const PoliciesReport& report, const std::string& directory);

// For reports that hold this one: its sections, whose plots are plots/PREFIXtask-block-measure.svg;
// those plots; its table of checks.
std::string sections_page(const PoliciesReport& report, const std::string& prefix);
Status write_plots(const PoliciesReport& report, const std::string& directory,
                   const std::string& prefix);
std::string checks_page(const std::vector<Check>& checks);
// "-" and null where it is not finite.
std::string fixed(double value, int decimals);
Json number_json(double value);
// 0.812 [0.70, 0.91], scaled by `scale`; without the interval where there is none.
std::string with_interval(const Estimate& estimate, double scale = 1, int decimals = 3);
Json json_of(const Estimate& estimate);
Json json_of(const std::vector<Check>& checks);

// A file as a whole; kIo.
Status write_file(const std::string& path, const std::string& text);

}  // namespace quire::eval
