// Quotas of roles (arXiv 2607.13205): what both policies of roles do once weights are known.

#include <algorithm>
#include <numeric>
#include <tuple>

#include "policies/policies.h"
#include "quire/arena.h"

namespace quire::policies {
namespace {

// The order in which the paper names roles: of equal remainders and weights the first is served.
constexpr Role kOrder[kRoles] = {Role::kValue, Role::kKey,   Role::kDelimiter,
                                 Role::kProse, Role::kBlank, Role::kHeader};

// One round: shares of `entries` in the weights of the roles that are `open`, rounded by largest
// remainder.
RoleCounts shares(const RoleWeights& weights, const std::array<bool, kRoles>& open,
                  std::uint32_t entries) {
  double sum = 0;
  for (const Role role : kOrder) sum += open[index(role)] ? weights[index(role)] : 0;
  RoleCounts quota{};
  std::vector<std::tuple<double, double, std::size_t>> rest;  // -remainder, -weight, role
  std::uint32_t left = entries;
  for (const Role role : kOrder) {
    const std::size_t r = index(role);
    if (!open[r]) continue;
    const double target = weights[r] / sum * entries;
    left -= quota[r] = std::min(static_cast<std::uint32_t>(target), left);
    rest.emplace_back(quota[r] - target, -weights[r], r);
  }
  std::ranges::stable_sort(rest, {},
                           [](const auto& r) { return std::pair(std::get<0>(r), std::get<1>(r)); });
  for (std::size_t i = 0; left > 0; ++i, --left) ++quota[std::get<2>(rest[i % rest.size()])];
  return quota;
}

}  // namespace

RoleCounts role_quotas(const RoleWeights& weights, const RoleCounts& sizes, std::uint32_t entries) {
  RoleCounts granted{};
  for (std::uint32_t left = entries; left > 0;) {
    std::array<bool, kRoles> open{};
    for (std::size_t r = 0; r < kRoles; ++r) open[r] = weights[r] > 0 && granted[r] < sizes[r];
    if (std::ranges::count(open, true) == 0) break;
    const RoleCounts quota = shares(weights, open, left);
    for (std::size_t r = 0; r < kRoles; ++r) {
      const std::uint32_t more = std::min(quota[r], sizes[r] - granted[r]);
      granted[r] += more;
      left -= more;
    }
  }
  return granted;
}

void choose_by_role(const RoleWeights& weights, std::span<const Role> role,
                    const Protection& protect, const EntryView& lane, std::span<const float> score,
                    std::span<Ordinal> kept, Arena& scratch) {
  const std::uint32_t live = lane.live, quota = static_cast<std::uint32_t>(kept.size());
  const std::uint32_t answer = live - entries_before(lane, lane.prompt_end);
  const std::uint32_t sinks = std::min(protect.sinks, quota);
  const std::uint32_t recent = std::min(std::max(protect.recent, answer), quota - sinks);
  const std::span<Ordinal> middle = scratch.take<Ordinal>(live - sinks - recent);
  const std::span<Ordinal> some = scratch.take<Ordinal>(middle.size());
  std::iota(middle.begin(), middle.end(), sinks);
  RoleCounts sizes{};
  for (const Ordinal i : middle) ++sizes[index(role[i])];
  const RoleCounts granted = role_quotas(weights, sizes, quota - sinks - recent);

  std::iota(kept.begin(), kept.begin() + sinks, Ordinal{0});
  auto to = kept.begin() + sinks;
  const auto take_best = [&](auto belongs, std::uint32_t count) {
    const auto end = std::ranges::copy_if(middle, some.begin(), belongs).out;
    std::nth_element(some.begin(), some.begin() + count, end, [&](Ordinal a, Ordinal b) {
      return score[a] != score[b] ? score[a] > score[b] : a < b;  // as the paper: the older
    });
    to = std::copy_n(some.begin(), count, to);
  };
  for (std::size_t r = 0; r < kRoles; ++r) {
    take_best([&](Ordinal i) { return index(role[i]) == r; }, granted[r]);
  }
  // Entries that no role with a weight can use: the best of the others.
  const auto taken = static_cast<std::uint32_t>(to - kept.begin());
  take_best([&](Ordinal i) { return granted[index(role[i])] == 0; }, quota - recent - taken);
  std::ranges::sort(kept.first(quota - recent));
  std::iota(kept.end() - recent, kept.end(), live - recent);
}

std::vector<std::string> role_scores() {
  return {"snapkv-max7",        "snapkv", "snapkv-ahead", "h2o",    "h2o-age",
          "expected-attention", "knorm",  "keydiff",      "random", "adakv"};
}

Result<Policy> split_by_role(const Values& values, Weigh weigh) {
  Result<Policy> policy = make_policy(values.text("score") + ":" + values.rest());
  if (!policy.ok()) return policy;
  policy->needs.roles = true;
  policy->choose = [base = policy->choose, least = static_cast<float>(values.real("least")), weigh](
                       const Protection& protect, const EntryView& lane,
                       std::span<const float> score, std::span<Ordinal> kept, Arena& scratch) {
    if (lane.structured >= least && lane.structured > 0) {
      std::vector<Role> role(lane.role.begin(), lane.role.end());
      const RoleWeights weights = weigh(lane, role);
      choose_by_role(weights, role, protect, lane, score, kept, scratch);
    } else if (base) {
      base(protect, lane, score, kept, scratch);
    } else {
      choose_top(protect, score, kept, scratch);
    }
  };
  return policy;
}

}  // namespace quire::policies
