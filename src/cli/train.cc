// quire train: files about a model that other commands read.

#include "cli/commands.h"
#include "cli/train_commands.h"

namespace quire::cli {

Command add_train(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App* gate = app.add_subcommand(
      "gate", "Where prompts of this model lie, for `--gate auto --gate-file FILE`");
  const Command run_gate = add_train_gate(*gate);
  CLI::App* roles = app.add_subcommand(
      "roles", "A probe that tells keys from values by a token's id and its neighbours'");
  const Command run_roles = add_train_roles(*roles);
  return [=] { return gate->parsed() ? run_gate() : run_roles(); };
}

}  // namespace quire::cli
