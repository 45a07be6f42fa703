// quire train: files about a model that other commands read.

#include "cli/commands.h"
#include "cli/train_commands.h"

namespace quire::cli {

Command add_train(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App* roles = app.add_subcommand(
      "roles", "A probe that tells keys from values by a token's id and its neighbours'");
  return add_train_roles(*roles);
}

}  // namespace quire::cli
