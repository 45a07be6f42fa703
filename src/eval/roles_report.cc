// What `quire eval roles` says: JSON, a table, CSV and files.  The page's sections are
// roles_page.cc.

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

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
  PoliciesReport copy{.header = report.header, .inputs = report.inputs};
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

// "smollm2-135m-instruct-q4-1": a model's name in the names of files.
std::string slug(const std::string& name) {
  std::string text;
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0) {
      text += static_cast<char>(std::tolower(letter));
    } else if (!text.empty() && text.back() != '-') {
      text += '-';
    }
  }
  while (text.ends_with('-')) text.pop_back();
  return text.empty() ? "model" : text;
}

// Sections of a page: each begins with a line of two #.
std::vector<std::string> sections_of(const std::string& page) {
  std::vector<std::string> sections;
  for (std::size_t at = page.find("\n## "); at != std::string::npos;) {
    const std::size_t next = page.find("\n## ", at + 1);
    sections.push_back(page.substr(at + 1, next == std::string::npos ? next : next - at));
    at = next;
  }
  return sections;
}

// The page that is there, this model's section in it.
std::string merged(const std::string& there, const std::string& section) {
  const std::string heading = section.substr(0, section.find('\n') + 1);
  std::string page = roles_page_head();
  bool placed = false;
  for (const std::string& old : sections_of(there)) {
    const bool same = old.starts_with(heading);
    page += same ? section : old;
    placed = placed || same;
  }
  return placed ? page : page + section;
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
  const std::string name =
      "roles-" + slug(std::filesystem::path(report.model_file).stem().string());
  Status status = write_plots(renamed(report.tasks.quality, plotted), directory, name + "-");
  if (status.ok()) status = write_file((root / (name + ".csv")).string(), csv_of(report));
  if (!status.ok()) return status;
  std::string there;
  if (std::ifstream in(root / "roles.md", std::ios::binary); in) {
    there.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return write_file((root / "roles.md").string(), merged(there, roles_section(report, name)));
}

}  // namespace quire::eval
