// The commands of `quire train`, as commands.h.
#pragma once

#include "cli/commands.h"

namespace quire::cli {

Command add_train_gate(CLI::App& app);
Command add_train_roles(CLI::App& app);

}  // namespace quire::cli
