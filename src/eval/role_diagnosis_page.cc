// What attention ranks, as a page and a table.

#include <algorithm>
#include <cstdio>

#include "eval/roles_page.h"
#include "roles/roles.h"

namespace quire::eval {
namespace {

constexpr Role kShown[] = {Role::kKey, Role::kValue, Role::kDelimiter, Role::kBlank, Role::kProse};

std::string percent(const Estimate& estimate, int decimals = 0) {
  return with_interval(estimate, 100, decimals);
}

std::string diagnosis_of(const std::vector<RoleDiagnosis>& all, Task task) {
  std::string text = "| role | tokens % | attention % |";
  std::string rule = "|---|---|---|";
  const std::vector<RoleRetention> arms = diagnosed_arms(all);
  for (const RoleRetention& arm : arms) {
    text +=
        " " + arm.policy.substr(0, arm.policy.find(':')) + " " + fixed(arm.keep * 100, 0) + " % |";
    rule += "---|";
  }
  text += "\n" + rule + "\n";
  for (const Role role : kShown) {
    const Estimate tokens = role_share(all, task, role, RoleMeasure::kTokens);
    if (tokens.value == 0) continue;
    text += "| " + std::string(roles::name_of(role)) + " | " + fixed(tokens.value * 100, 0) +
            " | " + percent(role_share(all, task, role, RoleMeasure::kMass), 1) + " |";
    for (const RoleRetention& arm : arms) {
      text += " " + fixed(role_kept(all, task, role, arm.policy, arm.keep).value * 100, 0) + " |";
    }
    text += "\n";
  }
  text += "| keys : values | | |";
  for (const RoleRetention& arm : arms) {
    text += " " + with_interval(keys_over_values(all, task, arm.policy, arm.keep), 1, 1) + " |";
  }
  return text + "\n";
}

}  // namespace

std::vector<RoleRetention> diagnosed_arms(const std::vector<RoleDiagnosis>& all) {
  return all.empty() ? std::vector<RoleRetention>{} : all.front().retention;
}

std::vector<Task> diagnosed_tasks(const std::vector<RoleDiagnosis>& all) {
  std::vector<Task> tasks;
  for (const Task task : kStructuredTasks) {
    if (std::ranges::find(all, task, &RoleDiagnosis::task) != all.end()) tasks.push_back(task);
  }
  return tasks;
}

std::string diagnosis_page(const std::vector<RoleDiagnosis>& all) {
  std::string text =
      "### What attention ranks\n\nShare of the attention of all rows, the first token apart, and "
      "of each role's tokens the share that the score alone keeps, nothing protected, the first "
      "question read.\n\n";
  for (const Task task : diagnosed_tasks(all)) {
    text += "*" + std::string(name_of(task)) + "*: the first token draws " +
            percent(diagnosed(all, task, &RoleDiagnosis::first_mass)) + " % of attention; " +
            percent(diagnosed(all, task, &RoleDiagnosis::low_values)) +
            " % of the values are among the quarter that draws least; " +
            percent(diagnosed(all, task, &RoleDiagnosis::merged_keys)) +
            " % of the keys' tokens cover a delimiter or value as well.\n\n" +
            diagnosis_of(all, task) + "\n";
  }
  return text;
}

std::string diagnosis_table(const std::vector<RoleDiagnosis>& all) {
  std::string text;
  char line[160];
  for (const Task task : diagnosed_tasks(all)) {
    text += std::string(name_of(task)) + ": share of attention beside the first token (" +
            percent(diagnosed(all, task, &RoleDiagnosis::first_mass)) + " %)\n";
    for (const Role role : kShown) {
      const Estimate tokens = role_share(all, task, role, RoleMeasure::kTokens);
      if (tokens.value == 0) continue;
      std::snprintf(line, sizeof(line), "  %-10s %5.1f %% of tokens  %5.1f %% of attention\n",
                    roles::name_of(role), tokens.value * 100,
                    role_share(all, task, role, RoleMeasure::kMass).value * 100);
      text += line;
    }
    for (const RoleRetention& arm : diagnosed_arms(all)) {
      std::snprintf(line, sizeof(line), "  %-30s keys : values kept at %4.1f %%: %s\n",
                    arm.policy.c_str(), arm.keep * 100,
                    with_interval(keys_over_values(all, task, arm.policy, arm.keep)).c_str());
      text += line;
    }
  }
  return text;
}

}  // namespace quire::eval
