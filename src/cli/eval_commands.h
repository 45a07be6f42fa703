// The commands of `quire eval`.
#pragma once

#include "cli/commands.h"

namespace quire::cli {

Command add_eval_policies(CLI::App& app);
Command add_eval_tasks(CLI::App& app);
Command add_eval_gate(CLI::App& app);
Command add_eval_paged(CLI::App& app);
Command add_eval_vtoken(CLI::App& app);

}  // namespace quire::cli
