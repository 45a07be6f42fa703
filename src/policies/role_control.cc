// What role-conditional is compared with: roles without its weights.  fair gives each role its
// share of the entries; ban-key, ban-value and ban-delimiter drop one role first and rank all
// others by the wrapped score alone.

#include "policies/policies.h"

namespace quire::policies {

PolicyKind role_control() {
  return {.name = "role-control",
          .file = "role_control",
          .source = "roles in equal shares, or one role banned: controls of role-conditional",
          .when = "as a rival in an evaluation of role-conditional",
          .when_not = "to serve",
          .cost = "as what it wraps; a byte a token for all lanes",
          .options = {choice("score", "snapkv-max7", role_scores()),
                      choice("rule", "fair", {"fair", "ban-key", "ban-value", "ban-delimiter"}),
                      real("least", "0", 0, 1)},
          .wraps = true,
          .make = [](const Values& values) -> Result<Policy> {
            const std::string rule = values.text("rule");
            const Role banned = rule == "ban-key"     ? Role::kKey
                                : rule == "ban-value" ? Role::kValue
                                                      : Role::kDelimiter;
            return split_by_role(
                values, [=](const EntryView& lane, std::vector<Role>& role) -> RoleWeights {
                  RoleWeights weights{};
                  if (rule != "fair") {  // two roles: what stays, and what is banned
                    for (Role& r : role) r = r == banned ? Role::kProse : Role::kValue;
                    weights[index(Role::kValue)] = 1;
                    return weights;
                  }
                  for (const Role r : lane.role) weights[index(r)] += 1;
                  return weights;
                });
          }};
}

}  // namespace quire::policies
