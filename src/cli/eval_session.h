// What the commands of `quire eval` begin and end with.
#pragma once

#include <atomic>
#include <cstdio>
#include <string>
#include <utility>

#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/open_engine.h"
#include "cli/report.h"
#include "cli/terminal.h"
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

// An evaluation, from its options to its files; returns the exit status.  `connect(options,
// progress, cancel)` lets it tell how far it is and be interrupted, `evaluate(model, like,
// options)` makes the report, `stopped(status)` complains about what went wrong.
template <typename Flags, typename Options, typename Connect, typename Evaluate, typename Stopped>
int run_eval(const Flags& flags, Result<Options> options, Connect connect, Evaluate evaluate,
             Stopped stopped) {
  if (!options.ok()) return stopped(options.status());
  const Result<Engine> engine = open_eval_engine(flags.engine);
  if (!engine.ok()) return stopped(engine.status());
  ProgressLine progress("eval");
  const Answering answering;
  connect(*options, progress, answering.cancel());
  const auto report = evaluate(*engine->model, engine->cache->options(), *options);
  progress.clear();
  if (!report.ok()) return stopped(report.status());
  if (Status status = write_report_files(*report, flags.csv, flags.report); !status.ok()) {
    return stopped(status);
  }
  print_report(*report, flags.json);
  return kExitDone;
}

// Connects options with one bar.
template <typename Options>
void show_progress(Options& options, ProgressLine& progress, const std::atomic<bool>* cancel) {
  options.cancel = cancel;
  options.on_progress = [&progress](double share, const std::string& doing) {
    progress.show(share, doing);
  };
}

}  // namespace quire::cli
