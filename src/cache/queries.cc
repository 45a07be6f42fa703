// Sequences by id, what a lane holds, and counts.
#include <algorithm>
#include <bit>
#include <limits>

#include "cache/paged_cache.h"

namespace quire {

Result<Sequence*> PagedCache::find(SequenceId id) const {
  Sequence* sequence = tables_.find(id);
  if (sequence != nullptr) return sequence;
  return Status(Code::kNotFound, "no sequence " + std::to_string(static_cast<std::uint64_t>(id)) +
                                     ": dropped, or never of this cache");
}

Status PagedCache::check_lane(std::uint32_t layer, std::uint32_t head) const {
  if (layer >= options_.layers.size()) {
    return {Code::kInvalidArgument,
            "layer: " + std::to_string(layer) + " of " + std::to_string(options_.layers.size())};
  }
  if (head >= options_.layers[layer].kv_heads) {
    return {Code::kInvalidArgument, "head: " + std::to_string(head) + " of " +
                                        std::to_string(options_.layers[layer].kv_heads)};
  }
  return {};
}

Status PagedCache::check_needs(const Needs& needs) const {
  if (needs.per_head && needs.tap != Tap::kLastRows) {
    return {Code::kInvalidArgument, "needs.per_head: only with Tap::kLastRows"};
  }
  if (needs.state && needs.tap == Tap::kNone) {
    return {Code::kInvalidArgument, "needs.state: not without a tap"};
  }
  if (needs.gate_rows * LastQueries::floats(options_.layers) > LastQueries::kFloatsMost) {
    return {Code::kUnsupported, "needs.gate_rows: " + std::to_string(needs.gate_rows) +
                                    " rows of queries would take over 1 GiB"};
  }
  return check_shapes(needs);
}

Result<SequenceId> PagedCache::start(const Needs& needs) {
  if (const Status status = between_steps("start"); !status.ok()) return status;
  if (const Status status = check_needs(needs); !status.ok()) return status;
  const Sequence* sequence = tables_.start(needs);
  if (sequence == nullptr) return out_of_room("start", 1);
  return sequence->id;
}

Result<SequenceId> PagedCache::fork(SequenceId parent) {
  if (const Status status = between_steps("fork"); !status.ok()) return status;
  const Result<Sequence*> sequence = find(parent);
  if (!sequence.ok()) return sequence.status();
  const Sequence* child = tables_.fork(**sequence);
  if (child == nullptr) return out_of_room("fork", 1);
  return child->id;
}

Status PagedCache::drop(SequenceId id) {
  if (const Status status = between_steps("drop"); !status.ok()) return status;
  const Result<Sequence*> sequence = find(id);
  if (!sequence.ok()) return sequence.status();
  tables_.drop(**sequence);
  return {};
}

Status PagedCache::set_roles(SequenceId id, Position first, std::span<const Role> roles) {
  if (const Status status = between_steps("set_roles"); !status.ok()) return status;
  const Result<Sequence*> sequence = find(id);
  if (!sequence.ok()) return sequence.status();
  if (!(*sequence)->needs.roles) {
    return {Code::kInvalidArgument, "roles: start() was not asked for them"};
  }
  if (roles.size() > std::numeric_limits<Position>::max() - first) {
    return {Code::kInvalidArgument, "roles: " + std::to_string(roles.size()) + " from position " +
                                        std::to_string(first) + " on are beyond any context"};
  }
  const auto known = [](Role role) { return static_cast<std::size_t>(role) < kRoles; };
  if (const auto bad = std::ranges::find_if_not(roles, known); bad != roles.end()) {
    return {Code::kInvalidArgument, "roles: " + std::to_string(static_cast<int>(*bad)) + " at " +
                                        std::to_string(bad - roles.begin()) + " is none"};
  }
  if (!tables_.set_roles(**sequence, first, roles)) return out_of_room("set_roles", 1);
  return {};
}

// --- room ---

std::size_t PagedCache::bytes_needed(SequenceId id, std::uint32_t rows) const {
  Sequence* sequence = tables_.find(id);
  if (sequence == nullptr) return 0;
  const Growth growth{sequence, rows, 0};
  return tables_.slabs_needed({&growth, 1}, options_.max_rows).slabs * pool_.slab_bytes();
}

std::size_t PagedCache::bytes_needed(std::span<const Segment> segments) const {
  std::vector<Growth> growths;
  growths.reserve(segments.size());
  for (const Segment& segment : segments) {
    Sequence* sequence = tables_.find(segment.sequence);
    if (sequence != nullptr) growths.push_back({sequence, segment.rows, 0});
  }
  return tables_.slabs_needed(growths, options_.max_rows).slabs * pool_.slab_bytes();
}

std::size_t PagedCache::bytes_free() const {
  return pool_.free_slabs(Idle::kGone) * pool_.slab_bytes();
}

std::uint32_t PagedCache::tokens_that_fit(const Needs& needs) const {
  return tables_.tokens_that_fit(needs, options_.max_rows);
}

// --- a lane ---

Result<std::vector<Position>> PagedCache::positions(SequenceId id, std::uint32_t layer,
                                                    std::uint32_t head) const {
  if (const Status status = between_steps("positions"); !status.ok()) return status;
  const Result<Sequence*> sequence = find(id);
  if (!sequence.ok()) return sequence.status();
  if (const Status status = check_lane(layer, head); !status.ok()) return status;
  std::vector<Position> live;
  fill_positions(**sequence, tables_.geometry().place(layer, head), live);
  return live;
}

Result<std::vector<float>> PagedCache::tap(SequenceId id, std::uint32_t layer,
                                           std::uint32_t head) const {
  if (const Status status = between_steps("tap"); !status.ok()) return status;
  const Result<Sequence*> sequence = find(id);
  if (!sequence.ok()) return sequence.status();
  if (const Status status = check_lane(layer, head); !status.ok()) return status;
  if ((*sequence)->needs.tap == Tap::kNone) {
    return Status(Code::kInvalidArgument, "tap: start() was not asked for one");
  }
  if (options_.layers[layer].window != 0) {
    return Status(Code::kInvalidArgument,
                  "layer: " + std::to_string(layer) + " has a window, which has no taps");
  }
  const LanePlace at = tables_.geometry().place(layer, head);
  std::vector<float> sums(tables_.live(**sequence, at));
  fill_taps(**sequence, at, 0, sums);
  return sums;
}

Status PagedCache::evict(SequenceId id, std::uint32_t layer, std::uint32_t head,
                         std::span<const Position> positions) {
  if (const Status status = between_steps("evict"); !status.ok()) return status;
  const Result<Sequence*> sequence = find(id);
  if (!sequence.ok()) return sequence.status();
  if (const Status status = check_lane(layer, head); !status.ok()) return status;
  const LanePlace at = tables_.geometry().place(layer, head);
  std::vector<Position> live;
  fill_positions(**sequence, at, live);
  std::vector<Ordinal> kept;
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < live.size(); ++i) {
    if (next < positions.size() && positions[next] == live[i]) {
      ++next;
    } else {
      kept.push_back(i);
    }
  }
  if (next != positions.size()) {
    return {Code::kInvalidArgument, "positions: " + std::to_string(positions[next]) +
                                        " is not live in the lane, or not ascending"};
  }
  while (!tables_.retain(**sequence, at, kept)) {  // the table of a window layer's lane
    if (!tables_.evict_prefix(PartUse::kExpected)) return out_of_room("evict", 1);
  }
  tables_.settle(**sequence);
  return {};
}

// --- counts ---

Result<std::uint32_t> PagedCache::length(SequenceId id) const {
  const Result<Sequence*> sequence = find(id);
  if (!sequence.ok()) return sequence.status();
  return (*sequence)->length;
}

CacheStats PagedCache::stats() const {
  const PoolBytes bytes = pool_.bytes();
  return {.budget_bytes = bytes.budget,
          .used_bytes = bytes.blocks + bytes.arrays,
          .kv_bytes = bytes.blocks,
          .metadata_bytes = bytes.arrays,
          .committed_bytes = bytes.committed,
          .stranded_bytes = bytes.stranded,
          .peak_bytes = bytes.peak,
          .headroom_bytes = tables_.headroom_bytes(),
          .moves = moved_,
          .sequences = tables_.sequence_count(),
          .prefix = tables_.prefix_stats()};
}

Result<SequenceStats> PagedCache::stats(SequenceId id) const {
  const Result<Sequence*> found = find(id);
  if (!found.ok()) return found.status();
  const Sequence& sequence = **found;
  const SequenceBytes bytes = tables_.bytes(sequence);
  SequenceStats stats{.tokens_seen = sequence.length,
                      .tokens_kept_min = std::numeric_limits<std::uint32_t>::max(),
                      .entries_dropped = sequence.dropped,
                      .bytes = bytes.own,
                      .bytes_shared = bytes.shared,
                      .blocks = tables_.blocks(sequence),
                      .waste = tables_.waste(sequence)};
  std::uint64_t entries = 0, lanes = 0;
  for (std::uint32_t g = 0; g < tables_.geometry().groups.size(); ++g) {
    const LayerGroup& group = tables_.geometry().groups[g];
    if (group.window != 0) continue;
    lanes += group.lanes;
    for (std::uint32_t l = 0; l < group.lanes; ++l) {
      const std::uint32_t live = tables_.live(sequence, {g, l});
      entries += live;
      stats.tokens_kept_min = std::min(stats.tokens_kept_min, live);
    }
  }
  if (lanes == 0) {  // windows only: nothing is ever evicted
    stats.tokens_kept_min = sequence.length;
    stats.tokens_kept_mean = sequence.length;
  } else {
    stats.tokens_kept_mean = static_cast<double>(entries) / static_cast<double>(lanes);
  }
  return stats;
}

}  // namespace quire
