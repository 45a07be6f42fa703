// quire eval policies: flags, progress, and where the results go.

#include <algorithm>
#include <memory>
#include <string>

#include "cli/cli.h"
#include "cli/eval_commands.h"
#include "cli/eval_flags.h"
#include "eval/policies_eval.h"

namespace quire::cli {
namespace {

// What --quick compares: one policy of each kind, short documents, under a minute with a small
// model.
constexpr const char* kQuickPolicies = "h2o,knorm,snapkv";

struct PoliciesFlags : InputFlags {
  std::string policies = "all", keep = "50%,25%,12.5%", block = "16", tasks = "prose,needle,json";
  std::uint32_t seeds = 4, tokens = 1024, continuation = 128;
  bool quick = false, blind_only = false;
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
  add_text_flag(app, flags);
  app.add_flag("--blind-only", flags.blind_only,
               "Leave out the reviews that come after the question");
  app.add_flag("--quick", flags.quick,
               "2 documents of 512 tokens, one share, few policies: under a minute, small model");
  add_resource_flags(app, flags);
  add_result_flags(app, flags,
                   "Results of finished inputs; given again, they are not measured again",
                   "Also a line per cell and measure");
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
  eval::PoliciesOptions options{.policies = policies_of(flags.policies),
                                .keeps = shares_of(flags.keep),
                                .tasks = tasks_of(flags.tasks),
                                .seeds = flags.seeds,
                                .aware = !flags.blind_only};
  options.inputs.tokens = flags.tokens;
  options.inputs.continuation = flags.continuation;
  if (flags.quick) options.inputs.questions = 4;
  for (const std::string& piece : split_list(flags.block)) {
    options.blocks.push_back(static_cast<std::uint32_t>(std::stoul(piece)));
  }
  if (Status status = apply(flags, options); !status.ok()) return status;
  return options;
}

int eval_policies(const PoliciesFlags& flags) {
  return run_input_eval(
      flags, options_of(flags), [](auto& options) -> auto& { return options; },
      eval::evaluate_policies);
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
