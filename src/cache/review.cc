// A review: what a policy would keep of every full-attention lane, then the eviction of the rest.
#include "cache/review.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "cache/paged_cache.h"
#include "quire/arena.h"

namespace quire {
namespace {

Status wrong(const Policy& policy, const std::string& what) {
  return {Code::kInvalidArgument, "policy " + policy.name + ": " + what};
}

// Makes a policy's counts legal: each between what it protects (or `keep`, if that is less) and
// what the lane has, their sum exactly `entries`.  A surplus is taken from the lane that is
// furthest above its least, a lack given to the lane with most left, one entry at a time; equal
// lanes: the first.
void settle_counts(const Protection& protect, std::span<const std::uint32_t> live,
                   std::uint32_t keep, std::uint64_t entries, std::span<std::uint32_t> counts) {
  std::vector<std::uint32_t> least(live.size());
  std::uint64_t sum = 0;
  for (std::size_t h = 0; h < live.size(); ++h) {
    const std::uint64_t fixed = std::uint64_t{protect.sinks} + protect.recent;
    least[h] = static_cast<std::uint32_t>(std::min<std::uint64_t>({fixed, keep, live[h]}));
    counts[h] = std::clamp(counts[h], least[h], live[h]);
    sum += counts[h];
  }
  const auto most = [&](auto spare) {
    std::size_t best = 0;
    for (std::size_t h = 1; h < counts.size(); ++h) {
      if (spare(h) > spare(best)) best = h;
    }
    return best;
  };
  for (; sum > entries; --sum) --counts[most([&](std::size_t h) { return counts[h] - least[h]; })];
  for (; sum < entries; ++sum) ++counts[most([&](std::size_t h) { return live[h] - counts[h]; })];
}

// Without a branch, so that it is compared many at a time.
bool all_finite(std::span<const float> scores) {
  constexpr std::uint32_t kExponent = 0x7f800000u;
  std::uint32_t wrong = 0;
  for (const float score : scores) {
    wrong |= (std::bit_cast<std::uint32_t>(score) & kExponent) == kExponent ? 1u : 0u;
  }
  return wrong == 0;
}

// Fills `kept` with what the policy would keep of a lane.
Status choose(const Policy& policy, const ShownLane& lane, std::span<Ordinal> kept, Arena& arena) {
  if (kept.size() == lane.view.live) {
    std::iota(kept.begin(), kept.end(), Ordinal{0});
    return {};
  }
  if (kept.empty()) return {};
  arena.reset();
  if (!policy.choose) {
    choose_top(policy.protect, lane.score, kept, arena);
    return {};
  }
  policy.choose(policy.protect, lane.view, lane.score, kept, arena);
  const bool ascending =
      std::ranges::adjacent_find(kept, std::ranges::greater_equal{}) == kept.end();
  if (ascending && kept.back() < lane.view.live) return {};
  return wrong(policy, "chose entries that are not ascending ordinals of the lane");
}

// The first lane's score becomes the mean over layers of the mean over the layer's lanes.
Status pool_scores(const Policy& policy, Review& review) {
  ShownLane& first = review.lanes[0];
  std::vector<double>&sum = review.pooled, &layer = review.pooled_layer;
  sum.assign(first.view.live, 0);
  std::uint32_t layers = 0;
  for (std::uint32_t begin = 0, end = 0; begin < review.shown; begin = end, ++layers) {
    layer.assign(first.view.live, 0);
    const std::uint32_t index = review.lanes[begin].view.layer;
    for (; end < review.shown && review.lanes[end].view.layer == index; ++end) {
      const ShownLane& lane = review.lanes[end];
      if (lane.position != first.position) {
        return wrong(policy,
                     "decides for several lanes at once, which hold different entries: "
                     "something else has evicted from them");
      }
      for (std::uint32_t i = 0; i < first.view.live; ++i) layer[i] += double{lane.score[i]};
    }
    const double heads = end - begin;
    for (std::uint32_t i = 0; i < first.view.live; ++i) sum[i] += layer[i] / heads;
  }
  for (std::uint32_t i = 0; i < first.view.live; ++i) {
    first.score[i] = static_cast<float>(sum[i] / layers);
  }
  return {};
}

}  // namespace

Status PagedCache::check_policy(const Sequence& sequence, const Policy& policy,
                                std::uint32_t keep) const {
  if (keep == 0) return {Code::kInvalidArgument, "keep: is 0; drop() ends a sequence"};
  if (!policy.score) return wrong(policy, "has no score");
  if (policy.allocate && policy.decides != Scope::kLane) {
    return wrong(policy, "divides entries over lanes that keep the same");
  }
  if (const Status status = check_shapes(policy.needs); !status.ok()) {
    return {status.code(), "policy " + policy.name + ": " + status.message()};
  }
  if (policy.needs.future != 0 && sequence.needs.future == 0) {
    return wrong(policy, "needs statistics of queries, which start() did not ask for");
  }
  if (policy.needs.future != 0 && policy.needs.query_skip != sequence.needs.query_skip) {
    return wrong(policy,
                 "needs statistics without the first " + std::to_string(policy.needs.query_skip) +
                     " queries; start() left out " + std::to_string(sequence.needs.query_skip));
  }
  if (policy.needs.roles && !sequence.needs.roles) {
    return wrong(policy, "needs roles, which start() did not ask for");
  }
  if (policy.needs.tap == Tap::kNone) {
    if (policy.needs.state) return wrong(policy, "needs a state without a tap");
    return {};
  }
  const Needs& seen = sequence.needs;
  const bool last_rows = policy.needs.tap == Tap::kLastRows;
  if (seen.tap != policy.needs.tap)
    return wrong(policy, "needs a tap that start() did not ask for");
  if (seen.group != policy.needs.group) {
    return wrong(policy, "needs another reduction over query heads than start() asked for");
  }
  if (last_rows && seen.window != policy.needs.window) {
    return wrong(policy, "needs a window of " + std::to_string(policy.needs.window) +
                             " rows; start() asked for " + std::to_string(seen.window));
  }
  if (policy.needs.per_head && !seen.per_head) {
    return wrong(policy, "needs sums per query head, which start() did not ask for");
  }
  if (policy.needs.anew != seen.anew) {
    return wrong(policy, "needs sums that begin anew at a review, or not: start() asked otherwise");
  }
  if (policy.needs.state && !seen.state) {
    return wrong(policy, "needs a state, which start() did not ask for");
  }
  return {};
}

Status PagedCache::show_and_score(const Sequence& sequence, std::uint32_t layer, std::uint32_t head,
                                  const Policy& policy) {
  if (review_.lanes.size() == review_.shown) review_.lanes.emplace_back();
  ShownLane& lane = review_.lanes[review_.shown++];
  show_lane(sequence, layer, head, policy.needs, lane);
  DecidedLane decided{.at = lane.at, .live = lane.view.live};
  if (policy.update && lane.view.live > 0) {
    decided.state = review_.states.size();
    review_.states.insert(review_.states.end(), lane.state.begin(), lane.state.end());
    policy.update(lane.view, {&review_.states[decided.state], lane.view.live});
    std::copy_n(&review_.states[decided.state], lane.view.live, lane.state.begin());
  }
  review_.decided.push_back(decided);
  lane.score.assign(lane.view.live, 0.0f);
  if (lane.view.live > 0) policy.score(lane.view, lane.score);
  if (all_finite(lane.score)) return {};
  return wrong(policy, "a score of layer " + std::to_string(layer) + " head " +
                           std::to_string(head) + " is not finite");
}

// Decides for the lanes shown, which share a decision, a quota, or nothing: then there is one.
Status PagedCache::decide(const Policy& policy, std::uint32_t keep) {
  Review& review = review_;
  review.counts.clear();
  std::uint32_t longest = 0;
  for (std::uint32_t i = 0; i < review.shown; ++i) {
    const std::uint32_t live = review.lanes[i].view.live;
    review.counts.push_back(std::min(keep, live));
    longest = std::max(longest, live);
  }
  if (policy.allocate) {
    std::uint64_t entries = 0;
    review.views.clear();
    review.scores.clear();
    review.live.clear();
    for (std::uint32_t i = 0; i < review.shown; ++i) {
      review.views.push_back(review.lanes[i].view);
      review.scores.push_back(review.lanes[i].score);
      review.live.push_back(review.lanes[i].view.live);
      entries += review.lanes[i].view.live;
    }
    entries = std::min(entries, std::uint64_t{keep} * review.shown);
    policy.allocate(policy.protect, review.views, review.scores,
                    static_cast<std::uint32_t>(entries), review.counts);
    settle_counts(policy.protect, review.live, keep, entries, review.counts);
  }
  const bool together = policy.decides != Scope::kLane;
  if (together && review.shown > 1) {
    if (Status status = pool_scores(policy, review); !status.ok()) return status;
  }
  Arena arena(std::size_t{longest} * 2 * sizeof(Ordinal) + 64);
  DecidedLane* const first = review.decided.data() + (review.decided.size() - review.shown);
  for (std::uint32_t i = 0; i < review.shown; ++i) {
    first[i].count = review.counts[i];
    if (together && i > 0) {
      first[i].first = first[0].first;
      continue;
    }
    first[i].first = review.kept.size();
    review.kept.resize(review.kept.size() + review.counts[i]);
    const std::span<Ordinal> kept(review.kept.data() + first[i].first, review.counts[i]);
    if (Status status = choose(policy, review.lanes[i], kept, arena); !status.ok()) return status;
  }
  review.shown = 0;
  return {};
}

Status PagedCache::decide_all(const Sequence& sequence, const Policy& policy, std::uint32_t keep) {
  const Scope scope = policy.decides != Scope::kLane ? policy.decides
                      : policy.allocate              ? policy.divides
                                                     : Scope::kLane;
  review_.clear();
  if (policy.needs.roles) tables_.copy_roles(sequence, review_.roles);
  for (std::uint32_t layer = 0; layer < options_.layers.size(); ++layer) {
    if (options_.layers[layer].window != 0) continue;
    if (policy.needs.output_norm) weigh_values(sequence, layer);
    for (std::uint32_t head = 0; head < options_.layers[layer].kv_heads; ++head) {
      if (Status status = show_and_score(sequence, layer, head, policy); !status.ok()) {
        return status;
      }
      if (scope != Scope::kLane) continue;
      if (Status status = decide(policy, keep); !status.ok()) return status;
    }
    if (scope != Scope::kLayer) continue;
    if (Status status = decide(policy, keep); !status.ok()) return status;
  }
  return scope == Scope::kSequence && review_.shown > 0 ? decide(policy, keep) : Status();
}

Result<ShrinkReport> PagedCache::shrink(SequenceId id, const Policy& policy, std::uint32_t keep) {
  if (const Status status = between_steps("shrink"); !status.ok()) return status;
  const Result<Sequence*> found = find(id);
  if (!found.ok()) return found.status();
  Sequence& sequence = **found;
  if (const Status status = check_policy(sequence, policy, keep); !status.ok()) return status;

  ShrinkReport report;
  std::uint64_t lanes = 0;
  std::uint32_t longest = 0;
  for (std::uint32_t layer = 0; layer < options_.layers.size(); ++layer) {
    for (std::uint32_t head = 0; head < options_.layers[layer].kv_heads; ++head) {
      if (options_.layers[layer].window != 0) continue;
      const std::uint32_t live = tables_.live(sequence, tables_.geometry().place(layer, head));
      report.entries_before += live;
      longest = std::max(longest, live);
      ++lanes;
    }
  }
  const bool enough = policy.allocate ? report.entries_before <= keep * lanes : longest <= keep;
  if (policy.keeps_all || enough) return report;

  // Every lane is decided before any is cut: a refusal changes nothing.
  if (const Status status = decide_all(sequence, policy, keep); !status.ok()) return status;
  const PoolBytes before = pool_.bytes();
  for (const DecidedLane& lane : review_.decided) {
    report.entries_dropped += lane.live - lane.count;
    if (policy.update && lane.live > 0) {
      keep_states(sequence, lane.at, {&review_.states[lane.state], lane.live});
    }
    // Full-attention lanes have the memory for their tables set aside.
    QUIRE_CHECK(tables_.retain(sequence, lane.at, {review_.kept.data() + lane.first, lane.count}));
  }
  sequence.reviewed = sequence.length;
  if (policy.needs.anew) tables_.clear_sums(sequence);
  tables_.settle(sequence);
  const PoolBytes after = pool_.bytes();
  const std::size_t used_before = before.blocks + before.arrays - before.idle;
  const std::size_t used_after = after.blocks + after.arrays - after.idle;
  report.bytes_freed = used_before > used_after ? used_before - used_after : 0;
  return report;
}

}  // namespace quire
