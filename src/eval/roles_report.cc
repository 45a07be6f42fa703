// What `quire eval roles` says: JSON, a table, CSV and files.  The page's sections are
// roles_page.cc.

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "eval/model_page.h"
#include "eval/roles_eval.h"
#include "eval/roles_page.h"
#include "roles/roles.h"

namespace quire::eval {
namespace {

// Every arm with a place in plots: scores with and without roles, shuffled labels, anchors.
bool plotted(const Arm& arm) {
  return !is_control(arm) && !is_key_share(arm);
}

// Cells under the names of short_name, only those of `wanted` arms.
PoliciesReport renamed(const PoliciesReport& report, bool (*wanted)(const Arm&)) {
  PoliciesReport copy{
      .header = report.header, .model_file = report.model_file, .inputs = report.inputs};
  for (const Cell& cell : report.summary.cells) {
    if (!wanted(cell.arm)) continue;
    copy.summary.cells.push_back(cell);
    copy.summary.cells.back().arm = {short_name(cell.arm), cell.arm.keep};
    copy.summary.cells.back().arm.gate = cell.arm.gate;
  }
  return copy;
}

Json gaps_json(const RolesReport& report) {
  Json gaps = Json::array();
  for (const Cell& cell : report.tasks.quality.summary.cells) {
    if (!cell.view || cell.arm.policy == kFull || cell.arm.policy == kRoleScores[0]) continue;
    const Estimate closed =
        gap_closed(report.tasks.quality.results, cell.task, *cell.view, cell.arm);
    if (closed.items == 0) continue;
    gaps.push_back({{"task", name_of(cell.task)},
                    {"view", name_of(*cell.view)},
                    {"policy", cell.arm.policy},
                    {"labels", labels_of(cell.arm)},
                    {"keep", cell.arm.keep},
                    {"closed", json_of(closed)}});
  }
  return gaps;
}

Json retention_json(const std::vector<RoleDiagnosis>& all, Task task) {
  Json list = Json::array();
  for (const RoleRetention& one : diagnosed_arms(all)) {
    Json kept = Json::object();
    for (std::size_t r = 0; r < kRoles; ++r) {
      const Role role = static_cast<Role>(r);
      kept[roles::name_of(role)] = json_of(role_kept(all, task, role, one.policy, one.keep));
    }
    list.push_back(
        {{"policy", one.policy},
         {"keep", one.keep},
         {"keys_over_values", json_of(keys_over_values(all, task, one.policy, one.keep))},
         {"kept", kept}});
  }
  return list;
}

Json diagnosis_json(const std::vector<RoleDiagnosis>& all) {
  Json list = Json::array();
  for (const Task task : diagnosed_tasks(all)) {
    Json by_role = Json::object();
    for (std::size_t r = 0; r < kRoles; ++r) {
      const Role role = static_cast<Role>(r);
      by_role[roles::name_of(role)] = {
          {"tokens", json_of(role_share(all, task, role, RoleMeasure::kTokens))},
          {"mass", json_of(role_share(all, task, role, RoleMeasure::kMass))}};
    }
    const Estimate first = diagnosed(all, task, &RoleDiagnosis::first_mass);
    list.push_back({{"task", name_of(task)},
                    {"documents", first.clusters},
                    {"first_mass", json_of(first)},
                    {"low_values", json_of(diagnosed(all, task, &RoleDiagnosis::low_values))},
                    {"merged_keys", json_of(diagnosed(all, task, &RoleDiagnosis::merged_keys))},
                    {"roles", by_role},
                    {"retention", retention_json(all, task)}});
  }
  return list;
}

}  // namespace

Json json_of(const RolesReport& report) {
  Json json = json_of(report.tasks);
  json["gaps"] = gaps_json(report);
  json["diagnosis"] = diagnosis_json(report.diagnosis);
  json["checks"] = json_of(report.checks);
  json["not_measured"] = report.not_measured;
  return json;
}

std::string csv_of(const RolesReport& report) {
  return csv_of(report.tasks);
}

std::string table_of(const RolesReport& report) {
  PoliciesReport main = renamed(report.tasks.quality, plotted);
  main.summary.checks = report.checks;
  std::string text = diagnosis_table(report.diagnosis) + "\n" + table_of(main);
  for (const std::string& name : report.not_measured) text += "not measured  " + name + "\n";
  return text;
}

Status write_report(const RolesReport& report, const std::string& directory) {
  const std::filesystem::path root(directory);
  const PoliciesReport& quality = report.tasks.quality;
  const std::string name = "roles-" + model_slug(quality.model_file);
  Status status = write_plots(renamed(quality, plotted), directory, name + "-");
  if (status.ok()) status = write_file((root / (name + ".csv")).string(), csv_of(report));
  if (!status.ok()) return status;
  return write_section((root / "roles.md").string(), roles_page_head(),
                       roles_section(report, name));
}

}  // namespace quire::eval
