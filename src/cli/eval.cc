// quire eval: the commands that measure what policies and repacking are worth.

#include "cli/commands.h"
#include "cli/eval_commands.h"

namespace quire::cli {

Command add_eval(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App* policies = app.add_subcommand(
      "policies", "Every policy at equal bytes, beside a full cache: text, needles, lookups");
  const Command run_policies = add_eval_policies(*policies);
  CLI::App* tasks = app.add_subcommand(
      "tasks", "What reviews take from answers: lookups, needles, quotes, questions of a file");
  const Command run_tasks = add_eval_tasks(*tasks);
  CLI::App* gate = app.add_subcommand(
      "gate", "What gates prevent: each statistic beside random, an oracle, and no gate");
  const Command run_gate = add_eval_gate(*gate);
  CLI::App* vtoken =
      app.add_subcommand("vtoken", "Blocks that repacking frees, beside an independent count");
  const Command run_vtoken = add_eval_vtoken(*vtoken);
  CLI::App* paged = app.add_subcommand(
      "paged-eviction", "Eviction of whole blocks by |v| / |k|: quality, speed, and its sign");
  const Command run_paged = add_eval_paged(*paged);
  return [=] {
    if (policies->parsed()) return run_policies();
    if (tasks->parsed()) return run_tasks();
    if (gate->parsed()) return run_gate();
    return paged->parsed() ? run_paged() : run_vtoken();
  };
}

}  // namespace quire::cli
