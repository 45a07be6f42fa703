// Flags of `quire eval` that several of its commands have: their checks, and what they say.
#pragma once

#include <string>
#include <vector>

#include "eval/inputs.h"
#include "quire/status.h"

namespace quire::cli {

// Checks for CLI11: a message, or nothing.
std::string check_policies(const std::string& list);
std::string check_shares(const std::string& list);  // 25%, under 100%
std::string check_tasks(const std::string& list);   // those that are made
std::string check_bytes(const std::string& text);

// Of lists that passed them.  Policies "all": those of `quire policies`.
std::vector<std::string> policies_of(const std::string& list);
std::vector<double> shares_of(const std::string& list);
std::vector<eval::Task> tasks_of(const std::string& list);

// "prose, drift, ..." of the tasks that are made.
std::string task_names();

// Complains about an evaluation that did not end, and says how to go on; returns the exit status.
int eval_stopped(const Status& status, bool json, const std::string& log);

}  // namespace quire::cli
