// quire eval gate: flags, progress, and where the results go.

#include <memory>
#include <string>

#include "cli/cli.h"
#include "cli/eval_commands.h"
#include "cli/eval_flags.h"
#include "eval/gate_eval.h"
#include "eval/prose_tasks.h"

namespace quire::cli {
namespace {

struct GateEvalFlags : InputFlags {
  std::string policies = "snapkv,snapkv-global,snapkv-ahead,h2o", keep = "6.25%,12.5%,25%,50%";
  std::string tasks = "keys,single,needle,chain,dictionary,json,lines";
  std::uint32_t seeds = 16, tokens = 900, questions = 12, calibration = 20, recent = 32, right = 0;
  bool quick = false;
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
  add_number(app, "--right", flags.right, 0u, 1u << 20,
             "No more documents of a class once the full cache has answered N of its questions;\n"
             "0: --seeds of each task, however many it answers");
  add_number(app, "--tokens", flags.tokens, 128u, 1u << 20, "Tokens of a document");
  add_number(app, "--questions", flags.questions, 1u, 256u, "Questions of a document, at most");
  add_number(app, "--recent", flags.recent, 0u, 4096u, "Newest entries that every arm keeps");
  add_text_flag(app, flags);
  app.add_flag("--quick", flags.quick, "Three documents of four tasks, two shares: minutes");
  add_resource_flags(app, flags);
  add_result_flags(app, flags,
                   "Results of finished documents; given again, they are not measured again",
                   "Also a line per arm and class");
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
  eval::GateEvalOptions options{.quality = {.policies = policies_of(flags.policies),
                                            .keeps = shares_of(flags.keep),
                                            .tasks = tasks_of(flags.tasks),
                                            .seeds = flags.seeds,
                                            .recent = flags.recent},
                                .calibration_prompts = flags.calibration,
                                .right_most = flags.right};
  eval::PoliciesOptions& quality = options.quality;
  quality.inputs = {.tokens = flags.tokens,
                    .needles = std::min(flags.questions, eval::kNeedlesMost),
                    .questions = flags.questions};
  if (Status status = apply(flags, quality); !status.ok()) return status;
  eval::arrange_gates(options);
  return options;
}

int eval_gate(const GateEvalFlags& flags) {
  return run_input_eval(
      flags, options_of(flags), [](auto& options) -> auto& { return options.quality; },
      eval::evaluate_gates);
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
