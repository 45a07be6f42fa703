// quire eval: the commands that measure what policies and repacking are worth.

#include "cli/commands.h"
#include "cli/eval_commands.h"

namespace quire::cli {

Command add_eval(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App* policies = app.add_subcommand(
      "policies", "Every policy at equal bytes, beside a full cache: text, needles, lookups");
  const Command run_policies = add_eval_policies(*policies);
  return [=] { return run_policies(); };
}

}  // namespace quire::cli
