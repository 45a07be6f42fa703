// Diagnoses of many documents to one number each, with its interval.

#include <algorithm>
#include <numeric>
#include <optional>

#include "eval/role_diagnosis.h"

namespace quire::eval {
namespace {

constexpr std::size_t index(Role role) {
  return static_cast<std::size_t>(role);
}

// Adds one share for each of a task's documents that has one.
template <typename Of>
Estimate over_documents(const std::vector<RoleDiagnosis>& all, Task task, Of of) {
  std::vector<Share> shares;
  for (const RoleDiagnosis& one : all) {
    if (one.task != task) continue;
    if (const std::optional<Share> share = of(one)) shares.push_back(*share);
  }
  return bootstrap_share(shares);
}

const RoleShares* kept_of(const RoleDiagnosis& one, const std::string& policy, double keep) {
  for (const RoleRetention& retention : one.retention) {
    if (retention.policy == policy && retention.keep == keep) return &retention.kept;
  }
  return nullptr;
}

}  // namespace

Estimate role_share(const std::vector<RoleDiagnosis>& all, Task task, Role role,
                    RoleMeasure measure) {
  return over_documents(all, task, [&](const RoleDiagnosis& one) -> std::optional<Share> {
    if (measure == RoleMeasure::kMass) return Share{one.mass[index(role)], 1};
    const double tokens = std::accumulate(one.tokens.begin(), one.tokens.end(), 0.0);
    return Share{one.tokens[index(role)], tokens};
  });
}

Estimate role_kept(const std::vector<RoleDiagnosis>& all, Task task, Role role,
                   const std::string& policy, double keep) {
  return over_documents(all, task, [&](const RoleDiagnosis& one) -> std::optional<Share> {
    const RoleShares* kept = kept_of(one, policy, keep);
    if (kept == nullptr) return {};
    return Share{(*kept)[index(role)], one.tokens[index(role)]};
  });
}

Estimate keys_over_values(const std::vector<RoleDiagnosis>& all, Task task,
                          const std::string& policy, double keep) {
  return over_documents(all, task, [&](const RoleDiagnosis& one) -> std::optional<Share> {
    const RoleShares* kept = kept_of(one, policy, keep);
    const double keys = one.tokens[index(Role::kKey)], values = one.tokens[index(Role::kValue)];
    if (kept == nullptr || keys == 0 || values == 0) return {};
    return Share{(*kept)[index(Role::kKey)] / keys, (*kept)[index(Role::kValue)] / values};
  });
}

Estimate diagnosed(const std::vector<RoleDiagnosis>& all, Task task,
                   double RoleDiagnosis::*number) {
  return over_documents(all, task, [&](const RoleDiagnosis& one) -> std::optional<Share> {
    return Share{one.*number, 1};
  });
}

}  // namespace quire::eval
