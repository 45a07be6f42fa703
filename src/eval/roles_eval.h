// `quire eval roles`: budgets by role (arXiv 2607.13205) over three scores, beside the scores
// alone, on structured text; what they cost where there is none, and where its keys are asked for.
//
// Thresholds, written down before any run.  They are those of Qwen2.5-Coder-0.5B; other models are
// held to them as well, and what fails is printed like what passes.  "Roles" are over snapkv-max7
// unless another score is named; questions are read before the review unless it says blind.
#pragma once

#include <string>
#include <vector>

#include "eval/role_diagnosis.h"
#include "eval/tasks_eval.h"

namespace quire::eval {

constexpr double kSmallKeep = 0.10, kFifthKeep = 0.20, kHalfKeep = 0.50;
constexpr double kEmGainLeast = 0.25;     // indented: roles over plain, at a tenth and a fifth
constexpr double kGapClosedLeast = 0.63;  // indented: of H2O to full, at every keep below a fifth
constexpr double kAheadRetainedLeast = 0.95;  // indented: snapkv-ahead + roles, at a tenth
constexpr double kBlindFifthLeast = 0.2;  // indented, blind: nats a token of the answer, at a fifth
constexpr double kBlindHalfLeast = 0.4;   // likewise, at a half
constexpr double kNeutralMost = 0.02;     // prose, needles: nats of difference, either way
constexpr double kKeysOverValuesLeast = 1.8;  // H2O unprotected keeps keys so much more often
// And by the sign of an interval: shuffled labels below plain (EM no better at a tenth, worse at a
// fifth); roles over plain by log-probability at a tenth, shuffled not; keys asked for: roles below
// plain, at a tenth and a fifth; compact JSON: no share for keys (key=0) below key=.02.

// snapkv-ahead keeps its window for itself: here as many rows as all arms protect by default.
inline constexpr const char* kAhead = "snapkv-ahead:window=32";
inline constexpr const char* kRoleScores[] = {"h2o", "snapkv-max7", kAhead};
std::string with_roles(const std::string& score, const std::string& more = {});
// Roles dealt out anew, by one seed.
std::string shuffled_roles(const std::string& score);
// Of what it names: "snapkv-max7 + roles", "h2o + shuffled", "snapkv-max7 + roles [probe:f]" ...
std::string short_name(const Arm& arm);

// Structured tasks, then those that have something to lose.
inline constexpr Task kStructuredTasks[] = {Task::kJson, Task::kJsonCompact, Task::kXml,
                                            Task::kNested, Task::kData};
inline constexpr Task kCostTasks[] = {Task::kProse, Task::kNeedle, Task::kJsonKeys,
                                      Task::kJsonList};

struct JsonFile {
  std::string name, text;
};

struct RolesOptions {
  TasksOptions tasks;             // its tasks and keeps are looked at; the rest is arrange()d
  std::vector<JsonFile> files{};  // Task::kData: real JSON (eval/json_data.h)
  std::vector<LabelSource>
      labels{};  // beside the scanners' and shuffled ones: roles by them as well
};

struct RolesReport {
  TasksReport tasks;
  std::vector<RoleDiagnosis> diagnosis;
  std::vector<Check> checks;              // the machinery's, then the thresholds above
  std::vector<std::string> not_measured;  // thresholds without their arms
};

// Sets what is compared on which task.
void arrange(RolesOptions& options);

// `options` as arrange() left them.  The log at quality.log_path, and LOG.diagnosis beside it, are
// not measured again.  kInvalidArgument: a file without a document to ask of.
Result<RolesReport> evaluate_roles(model::Model& model, const CacheOptions& like,
                                   const RolesOptions& options);

// How much of what H2O loses an arm brings back: (EM - EM of H2O) / (EM of full - EM of H2O), all
// at one keep.  NaN where H2O loses nothing.
Estimate gap_closed(const std::vector<InputResult>& results, Task task, View view, const Arm& arm);

// The thresholds, of what was measured; names of the others are added to `not_measured`.
std::vector<Check> role_checks(const std::vector<InputResult>& results,
                               const std::vector<RoleDiagnosis>& diagnosis,
                               std::vector<std::string>& not_measured);

// json_of(TasksReport), and gaps: [{task, view, policy, labels, keep, closed}], diagnosis: [{task,
// documents, first_mass, low_values, merged_keys, roles: {NAME: {tokens, mass}}, retention:
// [{policy, keep, keys_over_values, kept: {NAME: ...}}]}], checks, not_measured.
Json json_of(const RolesReport& report);
std::string table_of(const RolesReport& report);
std::string csv_of(const RolesReport& report);
// roles.md, where a section of this model takes the place of an earlier one and those of other
// models stay; roles-MODEL.csv; plots/roles-MODEL-*.svg.
Status write_report(const RolesReport& report, const std::string& directory);

}  // namespace quire::eval
