// A budget for each role (arXiv 2607.13205): in JSON and the like attention ranks structure above
// content, and keys outlive the values that answer.  The entries beside sinks, recent ones and the
// answer are divided by fixed weights, .70 - key : key : .20 : .05 : .05 of values, keys,
// delimiters, prose and blanks; within its role an entry competes by the score of the policy it
// wraps.
//
// Differs: entries that weighted roles are too few to use go to the best of the others.  Texts with
// little structure are left to the wrapped policy.  shuffle > 0 deals the roles out anew, by that
// seed: a control that must lose.

#include <algorithm>
#include <vector>

#include "policies/policies.h"

namespace quire::policies {
namespace {

std::vector<Role> shuffled(std::uint64_t seed, const EntryView& lane) {
  std::vector<std::pair<float, Role>> dealt;
  for (std::uint32_t i = 0; i < lane.live; ++i) {
    dealt.emplace_back(uniform_of(seed, EntryView{}, lane.position[i]), lane.role[i]);
  }
  std::ranges::stable_sort(dealt, {}, &std::pair<float, Role>::first);
  std::vector<Role> role;
  for (const auto& [at, r] : dealt) role.push_back(r);
  return role;
}

}  // namespace

PolicyKind role_conditional() {
  return {
      .name = "role-conditional",
      .file = "role_conditional",
      .source = "shares for keys, values, delimiters of JSON, XML, tables (arXiv 2607.13205)",
      .when = "lookups in long structured text, at a tenth of the cache or less, or asked later",
      .when_not = "questions about the schema itself, tool definitions: its keys are what goes",
      .cost = "as what it wraps; a byte a token for all lanes",
      .options = {choice("score", "snapkv-max7", role_scores()), real("key", "0.02", 0, 0.7),
                  real("least", "0.5", 0, 1), whole("shuffle", 0, 0, 1u << 31)},
      .wraps = true,
      .make = [](const Values& values) -> Result<Policy> {
        const double key = values.real("key");
        RoleWeights weights{};
        weights[index(Role::kValue)] = 0.70 - key, weights[index(Role::kKey)] = key;
        weights[index(Role::kDelimiter)] = 0.20;
        weights[index(Role::kProse)] = weights[index(Role::kBlank)] = 0.05;
        return split_by_role(values, [=, seed = values.whole("shuffle")](const EntryView& lane,
                                                                         std::vector<Role>& role) {
          if (seed != 0) role = shuffled(seed, lane);
          return weights;
        });
      }};
}

}  // namespace quire::policies
