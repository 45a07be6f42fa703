// A review: what a policy would keep of every full-attention lane, then the eviction of the rest.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "cache/paged_cache.h"
#include "quire/arena.h"

namespace quire {
namespace {

Status wrong(const Policy& policy, const std::string& what) {
  return {Code::kInvalidArgument, "policy " + policy.name + ": " + what};
}

// Makes a policy's counts of a layer legal: each between what it protects (or `keep`, if that is
// less) and what the lane has, their sum exactly `entries`.  A surplus is taken from the lane that
// is furthest above its least, a lack given to the lane with most left, one entry at a time; equal
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

// Fills `kept` with what the policy would keep of a lane.
Status choose(const Policy& policy, const ShownLane& lane, std::span<Ordinal> kept) {
  if (kept.size() == lane.view.live) {
    std::iota(kept.begin(), kept.end(), Ordinal{0});
    return {};
  }
  if (kept.empty()) return {};
  Arena arena(std::size_t{lane.view.live} * 2 * sizeof(Ordinal) + 64);
  if (policy.choose) {
    policy.choose(policy.protect, lane.view, lane.score, kept, arena);
  } else {
    choose_top(policy.protect, lane.score, kept, arena);
  }
  const bool ascending =
      std::ranges::adjacent_find(kept, std::ranges::greater_equal{}) == kept.end();
  if (ascending && kept.back() < lane.view.live) return {};
  return wrong(policy, "chose entries that are not ascending ordinals of the lane");
}

}  // namespace

Status PagedCache::check_policy(const Sequence& sequence, const Policy& policy,
                                std::uint32_t keep) const {
  if (keep == 0) return {Code::kInvalidArgument, "keep: is 0; drop() ends a sequence"};
  if (!policy.score) return wrong(policy, "has no score");
  if (policy.needs.tap == Tap::kNone) return {};
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
  return {};
}

void PagedCache::show_lane(const Sequence& sequence, std::uint32_t layer, std::uint32_t head,
                           const Needs& needs, ShownLane& lane) const {
  const LanePlace at = tables_.geometry().place(layer, head);
  const LayerShape& shape = options_.layers[layer];
  lane.position = live_positions(sequence, at);
  lane.view = {.live = tables_.live(sequence, at),
               .layer = layer,
               .head = head,
               .group = shape.query_heads / shape.kv_heads,
               .window_rows = needs.tap == Tap::kLastRows ? sequence.window_rows : 0,
               .window_end = needs.tap == Tap::kLastRows ? sequence.window_end : 0,
               .position = lane.position};
  if (needs.tap != Tap::kNone) lane.tap = tap_sums(sequence, at, 0);
  for (std::uint32_t g = 0; needs.per_head && g < lane.view.group; ++g) {
    const std::vector<float> sums = tap_sums(sequence, at, 1 + g);
    lane.tap_per_head.insert(lane.tap_per_head.end(), sums.begin(), sums.end());
  }
  if (needs.norms) {
    std::vector<kernels::BlockView> blocks(tables_.block_count(sequence, at));
    lane.key_norm.resize(lane.view.live);
    lane.value_norm.resize(lane.view.live);
    kernels_.norms(view(sequence, layer, head, 0, sequence.length, blocks.data()),
                   lane.key_norm.data(), lane.value_norm.data());
  }
  lane.view.tap = lane.tap;
  lane.view.tap_per_head = lane.tap_per_head;
  lane.view.key_norm = lane.key_norm;
  lane.view.value_norm = lane.value_norm;
}

Result<std::vector<std::vector<Ordinal>>> PagedCache::review_layer(const Sequence& sequence,
                                                                   std::uint32_t layer,
                                                                   const Policy& policy,
                                                                   std::uint32_t keep) const {
  const std::uint32_t heads = options_.layers[layer].kv_heads;
  std::vector<ShownLane> lanes(heads);
  std::vector<std::span<const float>> scores;
  std::vector<std::uint32_t> live, counts;
  std::uint64_t entries = 0;
  for (std::uint32_t head = 0; head < heads; ++head) {
    ShownLane& lane = lanes[head];
    show_lane(sequence, layer, head, policy.needs, lane);
    lane.score.assign(lane.view.live, 0.0f);
    if (lane.view.live > 0) policy.score(lane.view, lane.score);
    if (!std::ranges::all_of(lane.score, [](float score) { return std::isfinite(score); })) {
      return wrong(policy, "a score of layer " + std::to_string(layer) + " head " +
                               std::to_string(head) + " is not finite");
    }
    scores.push_back(lane.score);
    live.push_back(lane.view.live);
    counts.push_back(std::min(keep, lane.view.live));
    entries += lane.view.live;
  }
  if (policy.allocate) {
    entries = std::min(entries, std::uint64_t{keep} * heads);
    policy.allocate(policy.protect, scores, static_cast<std::uint32_t>(entries), counts);
    settle_counts(policy.protect, live, keep, entries, counts);
  }
  std::vector<std::vector<Ordinal>> kept(heads);
  for (std::uint32_t head = 0; head < heads; ++head) {
    kept[head].resize(counts[head]);
    if (const Status status = choose(policy, lanes[head], kept[head]); !status.ok()) return status;
  }
  return kept;
}

Result<ShrinkReport> PagedCache::shrink(SequenceId id, const Policy& policy, std::uint32_t keep) {
  if (const Status status = between_steps("shrink"); !status.ok()) return status;
  const Result<Sequence*> found = find(id);
  if (!found.ok()) return found.status();
  Sequence& sequence = **found;
  if (const Status status = check_policy(sequence, policy, keep); !status.ok()) return status;

  // Every layer is decided before any is cut: a refusal changes nothing.
  std::vector<std::vector<std::vector<Ordinal>>> kept(options_.layers.size());
  ShrinkReport report;
  for (std::uint32_t layer = 0; layer < options_.layers.size(); ++layer) {
    if (options_.layers[layer].window != 0) continue;
    Result<std::vector<std::vector<Ordinal>>> lanes = review_layer(sequence, layer, policy, keep);
    if (!lanes.ok()) return lanes.status();
    kept[layer] = *std::move(lanes);
  }
  const PoolBytes before = pool_.bytes();
  for (std::uint32_t layer = 0; layer < options_.layers.size(); ++layer) {
    for (std::uint32_t head = 0; head < kept[layer].size(); ++head) {
      const LanePlace at = tables_.geometry().place(layer, head);
      const std::uint32_t live = tables_.live(sequence, at);
      report.entries_before += live;
      report.entries_dropped += live - kept[layer][head].size();
      // Full-attention lanes have the memory for their tables set aside.
      QUIRE_CHECK(tables_.retain(sequence, at, kept[layer][head]));
    }
  }
  tables_.settle(sequence);
  const PoolBytes after = pool_.bytes();
  const std::size_t used_before = before.blocks + before.arrays;
  const std::size_t used_after = after.blocks + after.arrays;
  report.bytes_freed = used_before > used_after ? used_before - used_after : 0;
  return report;
}

}  // namespace quire
