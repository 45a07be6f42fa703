// What attention ranks in structured text, before any budget is divided: how much of it each role
// draws, and how often a plain policy keeps each.  The disease that role-conditional budgets (arXiv
// 2607.13205) are to cure: keys outlive the values that answer.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "eval/log.h"
#include "eval/policies_eval.h"

namespace quire::eval {

using RoleShares = std::array<double, kRoles>;  // by role

// How many tokens of each role a review leaves, mean over lanes.
struct RoleRetention {
  std::string policy;
  double keep = 0;
  RoleShares kept{};
};

// Of one document with its first question behind it.  Only the document's tokens count.
struct RoleDiagnosis {
  Task task = Task::kJson;
  std::uint32_t seed = 0;
  RoleShares tokens{};     // how many there are
  RoleShares mass{};       // of attention by all rows, share of all lanes' sum; the first token
  double first_mass = 0;   // apart
  double low_values = 0;   // values among the quarter of the tokens that draws least
  double merged_keys = 0;  // keys that cover a letter of another role as well
  std::vector<RoleRetention> retention{};
};

struct DiagnosisOptions {
  std::vector<std::string> policies;  // without protection, to see what scores choose
  std::vector<double> keeps;          // shares of the document's tokens
  std::vector<Task> tasks;
  std::uint32_t seeds = 4;
  std::string log_path;  // empty: none
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(double share, const std::string& doing)> on_progress{};
};

// `header`: of the evaluation that it belongs to.  What the log has is not read again; the model is
// left without a cache.
Result<std::vector<RoleDiagnosis>> diagnose_roles(model::Model& model, const CacheOptions& like,
                                                  const InputMaker& maker, const Json& header,
                                                  const DiagnosisOptions& options);

Json to_json(const RoleDiagnosis& diagnosis);

// --- over documents of a task, with intervals ---

enum class RoleMeasure : std::uint8_t { kTokens, kMass };
// Share of the document's tokens, or of the attention that its tokens but the first draw.
Estimate role_share(const std::vector<RoleDiagnosis>& all, Task task, Role role,
                    RoleMeasure measure);
// Share of a role's tokens that is kept.  NaN: the role is not there.
Estimate role_kept(const std::vector<RoleDiagnosis>& all, Task task, Role role,
                   const std::string& policy, double keep);
// How much more often keys are kept than values.  NaN: no value ever is.
Estimate keys_over_values(const std::vector<RoleDiagnosis>& all, Task task,
                          const std::string& policy, double keep);
// Mean of one of the plain numbers.
Estimate diagnosed(const std::vector<RoleDiagnosis>& all, Task task, double RoleDiagnosis::*number);

}  // namespace quire::eval
