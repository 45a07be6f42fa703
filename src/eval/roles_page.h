// The page of `quire eval roles`: its head, and the section of a model.
#pragma once

#include <string>
#include <vector>

#include "eval/roles_eval.h"

namespace quire::eval {

// What stands before the sections of models.
std::string roles_page_head();
// Begins with "## MODEL"; `prefix`: of its plots and its CSV.
std::string roles_section(const RolesReport& report, const std::string& prefix);

// Its part about what attention ranks; the same for a terminal.
std::string diagnosis_page(const std::vector<RoleDiagnosis>& diagnosis);
std::string diagnosis_table(const std::vector<RoleDiagnosis>& diagnosis);

// What stands apart from the main arms: controls, and shares of the key role.
bool is_control(const Arm& arm);
bool is_key_share(const Arm& arm);

// What every diagnosis has, and its tasks in the order of reports.
std::vector<RoleRetention> diagnosed_arms(const std::vector<RoleDiagnosis>& diagnosis);
std::vector<Task> diagnosed_tasks(const std::vector<RoleDiagnosis>& diagnosis);

}  // namespace quire::eval
