// The one list of policies, and the one reader of their specs.

#include <algorithm>

#include "policies/lines.h"
#include "policies/policies.h"
#include "quire/check.h"

namespace quire {
namespace {

using policies::Option;
using policies::PolicyKind;
using policies::Values;

const std::vector<PolicyKind>& kinds() {
  static const std::vector<PolicyKind> list = [] {
    std::vector<PolicyKind> all = {
        policies::full(),
        policies::sink_recency(),
        policies::random_choice(),
        policies::prompt_random(),
        policies::heavy_hitter(),
        policies::heavy_hitter_age(),
        policies::scissorhands(),
        policies::tova(),
        policies::snapkv(),
        policies::snapkv_max7(),
        policies::snapkv_ahead(),
        policies::snapkv_global(),
        policies::pyramidkv(),
        policies::adakv(),
        policies::chunkkv(),
        policies::criticalkv(),
        policies::expected_attention(),
        policies::knorm(),
        policies::keydiff(),
        policies::lagkv(),
        policies::paged_eviction(),
        policies::kv_compress(),
        policies::r_kv(),
        policies::zipage(),
        policies::role_conditional(),
        policies::role_control(),
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

// What the kernels compute for a policy, in words.
std::string describe(const Needs& needs) {
  const char* const reduced[] = {"sum", "mean", "largest", "sum of squares", "misses"};
  std::string all;
  const auto add = [&](const std::string& what) { all += (all.empty() ? "" : ", ") + what; };
  const std::string heads = std::string(" (") + reduced[static_cast<int>(needs.group)] + ")";
  const std::string rows =
      needs.window == 1 ? "the last row" : "the last " + std::to_string(needs.window) + " rows";
  if (needs.tap == Tap::kAllRows) add("attention of all rows" + heads);
  if (needs.tap == Tap::kDecodeRows) add("attention of the answer's rows" + heads);
  if (needs.tap == Tap::kLastRows) add("attention of " + rows + heads);
  if (needs.per_head) add("attention of each query head");
  if (needs.state) add("state");
  if (needs.norms) add("norms");
  if (needs.alignment) add("alignment");
  if (needs.lag_chunk != 0) add("spread");
  if (needs.similar_run != 0) add("similarity");
  if (needs.future != 0) add("statistics of the prompt's queries");
  if (needs.output_norm) add("output projection");
  if (needs.roles) add("roles");
  return all.empty() ? "nothing" : all;
}

std::string scope_of(const Policy& policy) {
  const char* const names[] = {"lane", "layer", "sequence"};
  const Scope shared = policy.decides != Scope::kLane ? policy.decides
                       : policy.allocate              ? policy.divides
                                                      : Scope::kLane;
  return names[static_cast<int>(shared)];
}

std::uint32_t lines_of(const std::string& file) {
  const auto found = std::ranges::find(policies::kFileLines, file, &policies::FileLines::file);
  QUIRE_CHECK(found != policies::kFileLines.end());
  return found->lines;
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
  for (const char* shared : {"sinks", "recent"}) {
    if (kind->wraps) values->add_to_rest(shared);
  }
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
    const Result<Policy> policy = make_policy(kind.name);
    QUIRE_CHECK(policy.ok());  // a policy accepts its own standard options
    list.push_back({.name = kind.name,
                    .source = kind.source,
                    .options = policies::describe(kind.options),
                    .needs = describe(policy->needs),
                    .scope = scope_of(*policy),
                    .when = kind.when,
                    .when_not = kind.when_not,
                    .cost = kind.cost,
                    .lines = lines_of(kind.file),
                    .keeps_all = policy->keeps_all});
  }
  return list;
}

}  // namespace quire
