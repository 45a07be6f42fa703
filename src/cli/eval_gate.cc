// quire eval gate: flags, progress, and where the results go.

#include <memory>
#include <string>

#include "cli/cli.h"
#include "cli/eval_commands.h"
#include "cli/eval_flags.h"
#include "cli/eval_session.h"
#include "cli/eval_texts.h"
#include "cli/flags.h"
#include "engine/budget.h"
#include "eval/gate_eval.h"
#include "eval/prose_tasks.h"

namespace quire::cli {
namespace {

struct GateEvalFlags {
  EngineFlags engine;
  std::string policies = "snapkv,snapkv-ahead,h2o", keep = "6.25%,12.5%,25%,50%";
  std::string tasks = "keys,single,needle,chain,dictionary,json,lines";
  std::string text, csv, report, log;
  std::uint32_t seeds = 16, tokens = 900, questions = 12, calibration = 20, recent = 32;
  bool quick = false, json = false;
};

void add_flags(CLI::App& app, GateEvalFlags& flags) {
  add_model_flag(app, flags.engine)->required();
  app.add_option("--policies", flags.policies,
                 "NAME or NAME:key=value,..., separated by commas; the first is judged;\n"
                 "sink-recency, random and prompt-random always run")
      ->type_name("NAME,...")
      ->check(check_policies)
      ->capture_default_str();
  app.add_option("--keep", flags.keep, "Shares of the document's tokens")
      ->type_name("P%,...")
      ->check(check_shares)
      ->capture_default_str();
  app.add_option("--tasks", flags.tasks,
                 "Of `quire eval tasks`, those that ask. Capacity-bound: keys; dilution: single,\n"
                 "needle, chain; the rest is in neither class")
      ->type_name("TASK,...")
      ->check(check_tasks)
      ->capture_default_str();
  add_number(app, "--seeds", flags.seeds, 2u, 10000u, "Documents of each task");
  add_number(app, "--calibration", flags.calibration, 2u, 10000u,
             "Prompts of each task, of other seeds, that thresholds are made of");
  add_number(app, "--tokens", flags.tokens, 128u, 1u << 20, "Tokens of a document");
  add_number(app, "--questions", flags.questions, 1u, 256u, "Questions of a document, at most");
  add_number(app, "--recent", flags.recent, 0u, 4096u, "Newest entries that every arm keeps");
  app.add_option("--text", flags.text,
                 "Prose, one paragraph a line (default: openings of two novels, 16,000 tokens)")
      ->type_name("FILE");
  app.add_flag("--quick", flags.quick, "Three documents of four tasks, two shares: minutes");
  add_number(app, "-t,--threads", flags.engine.threads, 0u, 256u,
             "Threads; 0: the machine's cores");
  app.add_option("--budget", flags.engine.budget, "Bytes of the cache (default: what arms need)")
      ->type_name("SIZE")
      ->check(check_bytes);
  app.add_option("-o,--log", flags.log,
                 "Results of finished documents; given again, they are not measured again")
      ->type_name("LOG.jsonl");
  app.add_flag("--json", flags.json, "One JSON object instead of a table");
  app.add_option("--csv", flags.csv, "Also a line per arm and class")->type_name("FILE");
  app.add_option("--report", flags.report, "Also a page with plots")->type_name("DIR");
}

// --quick stands for what was not given.
void settle(const CLI::App& app, GateEvalFlags& flags) {
  if (!flags.quick) return;
  const auto given = [&](const char* flag) { return app.count(flag) > 0; };
  if (!given("--keep")) flags.keep = "12.5%,25%";
  if (!given("--tasks")) flags.tasks = "keys,single,needle,chain";
  if (!given("--policies")) flags.policies = "snapkv";
  if (!given("--seeds")) flags.seeds = 3;
  if (!given("--calibration")) flags.calibration = 6;
  if (!given("--tokens")) flags.tokens = 512;
  if (!given("--questions")) flags.questions = 6;
}

Result<eval::GateEvalOptions> options_of(const GateEvalFlags& flags) {
  eval::GateEvalOptions options{.quality = {.model_path = flags.engine.model,
                                            .policies = policies_of(flags.policies),
                                            .keeps = shares_of(flags.keep),
                                            .tasks = tasks_of(flags.tasks),
                                            .seeds = flags.seeds,
                                            .recent = flags.recent,
                                            .log_path = flags.log},
                                .calibration_prompts = flags.calibration};
  eval::PoliciesOptions& quality = options.quality;
  quality.inputs = {.tokens = flags.tokens,
                    .needles = std::min(flags.questions, eval::kNeedlesMost),
                    .questions = flags.questions};
  if (!flags.engine.budget.empty()) {
    quality.budget_bytes = *engine::parse_bytes(flags.engine.budget);
  }
  Result<EvalText> text = read_eval_text(flags.text);
  if (!text.ok()) return text.status();
  quality.text = std::move(text->text);
  quality.text_name = std::move(text->name);
  eval::arrange_gates(options);
  return options;
}

int eval_gate(const GateEvalFlags& flags) {
  return run_eval(
      flags, options_of(flags),
      [](eval::GateEvalOptions& options, ProgressLine& progress, const std::atomic<bool>* cancel) {
        show_progress(options.quality, progress, cancel);
      },
      eval::evaluate_gates,
      [&](const Status& status) { return eval_stopped(status, flags.json, flags.log); });
}

}  // namespace

Command add_eval_gate(CLI::App& app) {
  auto flags = std::make_shared<GateEvalFlags>();
  add_flags(app, *flags);
  return [flags, &app] {
    settle(app, *flags);
    return eval_gate(*flags);
  };
}

}  // namespace quire::cli
