// Flags of `quire eval` that several of its commands have: their checks, and what they say.
#pragma once

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "cli/eval_session.h"
#include "cli/flags.h"
#include "eval/policies_eval.h"

namespace quire::cli {

// Checks for CLI11: a message, or nothing.
std::string check_policies(const std::string& list);
std::string check_shares(const std::string& list);  // 25%, under 100%
std::string check_tasks(const std::string& list);   // those that are made
std::string check_bytes(const std::string& text);

// Of lists that passed them.  Policies "all": those of `quire policies`.
std::vector<std::string> policies_of(const std::string& list);
std::vector<double> shares_of(const std::string& list);
std::vector<eval::Task> tasks_of(const std::string& list);

// "prose, drift, ..." of the tasks that are made.
std::string task_names();

// What evaluations that measure inputs have in common: what they read and use, where results go.
struct InputFlags {
  EngineFlags engine;
  std::string text, csv, report, log;
  bool json = false;
};
void add_text_flag(CLI::App& app, InputFlags& flags);
void add_resource_flags(CLI::App& app, InputFlags& flags);  // threads, bytes
// `log`, `csv`, `report`: what these files hold.
void add_result_flags(CLI::App& app, InputFlags& flags, const std::string& log,
                      const std::string& csv, const std::string& report = "Also a page with plots");
// All of them but the result files, which run_eval() writes.
Status apply(const InputFlags& flags, eval::PoliciesOptions& options);

// Complains about an evaluation that did not end, and says how to go on; returns the exit status.
int eval_stopped(const Status& status, bool json, const std::string& log);

// run_eval() with one bar and this advice; `quality(options)`: how inputs are measured.
template <typename Options, typename Quality, typename Evaluate>
int run_input_eval(const InputFlags& flags, Result<Options> options, Quality quality,
                   Evaluate evaluate) {
  return run_eval(
      flags, std::move(options),
      [&](Options& all, ProgressLine& progress, const std::atomic<bool>* cancel) {
        show_progress(quality(all), progress, cancel);
      },
      evaluate, [&](const Status& status) { return eval_stopped(status, flags.json, flags.log); });
}

}  // namespace quire::cli
