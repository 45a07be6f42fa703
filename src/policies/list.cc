// The one list of policies, and the one reader of their specs.

#include <algorithm>

#include "policies/policies.h"

namespace quire {
namespace {

using policies::Option;
using policies::PolicyKind;
using policies::Values;

const std::vector<PolicyKind>& kinds() {
  static const std::vector<PolicyKind> list = [] {
    std::vector<PolicyKind> all = {
        policies::sink_recency(),     policies::random_choice(), policies::heavy_hitter(),
        policies::heavy_hitter_age(), policies::knorm(),         policies::snapkv(),
        policies::snapkv_ahead(),     policies::adakv(),
    };
    const Protection standard;
    for (PolicyKind& kind : all) {
      kind.options.push_back(policies::whole("sinks", standard.sinks, 0, 64));
      kind.options.push_back(policies::whole("recent", standard.recent, 0, 1u << 20));
    }
    return all;
  }();
  return list;
}

std::string names() {
  std::string all;
  for (const PolicyKind& kind : kinds()) all += (all.empty() ? "" : ", ") + kind.name;
  return all;
}

}  // namespace

Result<Policy> make_policy(std::string_view spec) {
  const std::size_t colon = spec.find(':');
  const std::string_view name = spec.substr(0, colon);
  const auto kind = std::ranges::find(kinds(), name, &PolicyKind::name);
  if (kind == kinds().end()) {
    return Status(Code::kInvalidArgument,
                  "no policy \"" + std::string(name) + "\"; there are " + names());
  }
  const std::string_view text =
      colon == std::string_view::npos ? std::string_view{} : spec.substr(colon + 1);
  Result<Values> values = Values::parse(name, text, kind->options, kind->wraps);
  if (!values.ok()) return values.status();
  Result<Policy> policy = kind->make(*values);
  if (!policy.ok()) return policy;
  policy->name = std::string(spec);
  policy->source = kind->source;
  policy->protect = {.sinks = static_cast<std::uint32_t>(values->whole("sinks")),
                     .recent = static_cast<std::uint32_t>(values->whole("recent"))};
  return policy;
}

std::vector<PolicyInfo> list_policies() {
  std::vector<PolicyInfo> list;
  for (const PolicyKind& kind : kinds()) {
    list.push_back({kind.name, kind.source, policies::describe(kind.options)});
  }
  return list;
}

}  // namespace quire
