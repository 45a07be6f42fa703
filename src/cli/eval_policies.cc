// quire eval policies: flags, progress, and where the results go.

#include <algorithm>
#include <memory>
#include <string>

#include "cli/cli.h"
#include "cli/eval_commands.h"
#include "cli/eval_flags.h"
#include "cli/eval_session.h"
#include "cli/eval_texts.h"
#include "cli/flags.h"
#include "engine/generate.h"
#include "eval/policies_eval.h"

namespace quire::cli {
namespace {

// What --quick compares: one policy of each kind, short documents, under a minute with a small
// model.
constexpr const char* kQuickPolicies = "h2o,knorm,snapkv";

struct PoliciesFlags {
  EngineFlags engine;
  std::string policies = "all", keep = "50%,25%,12.5%", block = "16", tasks = "prose,needle,json";
  std::string text, csv, report, log;
  std::uint32_t seeds = 4, tokens = 1024, continuation = 128;
  bool quick = false, json = false, blind_only = false;
};

std::string check_block(const std::string& list) {
  for (const std::string& piece : split_list(list)) {
    if (piece == "8" || piece == "16" || piece == "32" || piece == "64") continue;
    return "\"" + piece + "\" is none of 8, 16, 32, 64";
  }
  return {};
}

void add_policies_flags(CLI::App& app, PoliciesFlags& flags) {
  add_model_flag(app, flags.engine)->required();
  app.add_option("--policies", flags.policies,
                 "NAME or NAME:key=value,..., separated by commas; all: those of\n"
                 "`quire policies`; full, oracle, random and sink-recency always run")
      ->type_name("NAME,...")
      ->check(check_policies)
      ->capture_default_str();
  app.add_option("--keep", flags.keep, "Shares of the full cache's bytes, tables counted")
      ->type_name("P%,...")
      ->check(check_shares)
      ->capture_default_str();
  app.add_option("--block", flags.block, "Tokens of a cache block: 8, 16, 32, 64")
      ->type_name("N,...")
      ->check(check_block)
      ->capture_default_str();
  app.add_option("--tasks", flags.tasks, task_names())
      ->type_name("TASK,...")
      ->check(check_tasks)
      ->capture_default_str();
  add_number(app, "--seeds", flags.seeds, 1u, 10000u, "Documents of each task");
  add_number(app, "--tokens", flags.tokens, 128u, 1u << 20, "Tokens of a document");
  add_number(app, "--continuation", flags.continuation, 2u, 1u << 16, "Tokens of prose after it");
  app.add_option("--text", flags.text,
                 "Prose, one paragraph a line (default: openings of two novels, 16,000 tokens)")
      ->type_name("FILE");
  app.add_flag("--blind-only", flags.blind_only,
               "Leave out the reviews that come after the question");
  app.add_flag("--quick", flags.quick,
               "2 documents of 512 tokens, one share, few policies: under a minute, small model");
  add_number(app, "-t,--threads", flags.engine.threads, 0u, 256u,
             "Threads; 0: the machine's cores");
  app.add_option("--budget", flags.engine.budget, "Bytes of the cache (default: what arms need)")
      ->type_name("SIZE")
      ->check(check_bytes);
  app.add_option("-o,--log", flags.log,
                 "Results of finished inputs; given again, they are not measured again")
      ->type_name("LOG.jsonl");
  app.add_flag("--json", flags.json, "One JSON object instead of a table");
  app.add_option("--csv", flags.csv, "Also a line per cell and measure")->type_name("FILE");
  app.add_option("--report", flags.report, "Also a page with plots")->type_name("DIR");
}

// --quick stands for numbers that were not given.
void settle(const CLI::App& app, PoliciesFlags& flags) {
  if (!flags.quick) return;
  const auto given = [&](const char* flag) { return app.count(flag) > 0; };
  if (!given("--policies")) flags.policies = kQuickPolicies;
  if (!given("--keep")) flags.keep = "25%";
  if (!given("--seeds")) flags.seeds = 2;
  if (!given("--tokens")) flags.tokens = 512;
  if (!given("--continuation")) flags.continuation = 48;
}

Result<eval::PoliciesOptions> options_of(const PoliciesFlags& flags) {
  eval::PoliciesOptions options{.model_path = flags.engine.model,
                                .policies = policies_of(flags.policies),
                                .keeps = shares_of(flags.keep),
                                .tasks = tasks_of(flags.tasks),
                                .seeds = flags.seeds,
                                .aware = !flags.blind_only,
                                .log_path = flags.log};
  options.inputs.tokens = flags.tokens;
  options.inputs.continuation = flags.continuation;
  if (flags.quick) options.inputs.questions = 4;
  for (const std::string& piece : split_list(flags.block)) {
    options.blocks.push_back(static_cast<std::uint32_t>(std::stoul(piece)));
  }
  if (!flags.engine.budget.empty()) {
    options.budget_bytes = *engine::parse_bytes(flags.engine.budget);
  }
  Result<EvalText> text = read_eval_text(flags.text);
  if (!text.ok()) return text.status();
  options.text = std::move(text->text);
  options.text_name = std::move(text->name);
  return options;
}

int eval_policies(const PoliciesFlags& flags) {
  return run_eval(
      flags, options_of(flags), show_progress<eval::PoliciesOptions>, eval::evaluate_policies,
      [&](const Status& status) { return eval_stopped(status, flags.json, flags.log); });
}

}  // namespace

Command add_eval_policies(CLI::App& app) {
  auto flags = std::make_shared<PoliciesFlags>();
  add_policies_flags(app, *flags);
  return [flags, &app] {
    settle(app, *flags);
    return eval_policies(*flags);
  };
}

}  // namespace quire::cli
