// What the commands of `quire eval` begin and end with.
#pragma once

#include <cstdio>
#include <string>

#include "cli/open_engine.h"
#include "cli/report.h"
#include "eval/policies_report.h"

namespace quire::cli {

// The model in deterministic mode, so that results depend neither on which arms share a step nor on
// the machine's tiles, with a small cache that nobody fills: an evaluation opens its own.
Result<Engine> open_eval_engine(EngineFlags flags);

// Complains, with what to do about it behind the message; returns the exit status.
int eval_failed(const Status& status, bool json, const std::string& advice = {});

template <typename Report>
void print_report(const Report& report, bool json) {
  if (json) {
    std::puts(dump(json_of(report)).c_str());
  } else {
    std::fputs(table_of(report).c_str(), stdout);
  }
}

// Files whose names are empty are not wanted.
template <typename Report>
Status write_report_files(const Report& report, const std::string& csv, const std::string& folder) {
  if (!csv.empty()) {
    if (Status status = eval::write_file(csv, csv_of(report)); !status.ok()) return status;
  }
  return folder.empty() ? Status() : write_report(report, folder);
}

}  // namespace quire::cli
