#include "core/tables.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "quire/check.h"

namespace quire {

Tables::Tables(Pool& pool, Geometry geometry, Reclaim reclaim, PrefixNaming naming)
    : pool_(pool),
      geometry_(std::move(geometry)),
      reclaim_(reclaim),
      nodes_(pool),
      index_(pool, geometry_, std::move(naming)),
      spares_(geometry_.groups.size()) {
  for (std::size_t g = 0; g < geometry_.groups.size(); ++g) {
    LayerGroup& group = geometry_.groups[g];
    const auto twin = std::ranges::find(geometry_.groups.begin(), geometry_.groups.begin() + g,
                                        group.block_bytes, &LayerGroup::block_bytes);
    const bool known = twin != geometry_.groups.begin() + g;
    group.format = known ? twin->format : pool_.add_format(group.block_bytes);
  }
}

Tables::~Tables() {
  if (growing()) retract();
  forget();
  for (std::uint32_t slot = 0; slot < slots_.size();) {
    if (Sequence* sequence = slots_[slot]; sequence != nullptr) {
      drop(*sequence);  // may shorten the list
    } else {
      ++slot;
    }
  }
}

// --- sequences ---

void Tables::add_start(Demand& demand) const {
  demand.add_arrays(Sequence::bytes(geometry_), 1);
  demand.add_nodes(PagedList<Sequence*>::nodes_for(slots_.size() + 1) -
                   PagedList<Sequence*>::nodes_for(slots_.size()));
}

Sequence* Tables::start(const Needs& needs) {
  make_room([&](Demand& demand) { add_start(demand); });
  std::uint32_t slot = 0;
  while (slot < slots_.size() && slots_[slot] != nullptr) ++slot;
  std::byte* memory = pool_.acquire_array(Sequence::bytes(geometry_));
  if (memory == nullptr) return nullptr;
  if (slot == slots_.size() && !slots_.resize(nodes_, slot + 1)) {
    pool_.release_array(memory);
    return nullptr;
  }
  std::memset(memory, 0, Sequence::bytes(geometry_));
  auto* sequence = reinterpret_cast<Sequence*>(memory);
  sequence->slot = slot;
  sequence->id = SequenceId{std::uint64_t{++next_sequence_} << 32 | slot};
  sequence->needs = needs;
  sequence->gate_on = needs.gate_rows != 0 ? 1 : 0;
  sequence->taps = needs.tap == Tap::kNone       ? TapState::kOff
                   : needs.tap == Tap::kLastRows ? TapState::kWaiting
                                                 : TapState::kOn;
  for (std::size_t g = 0; g < geometry_.groups.size(); ++g) {
    sequence->groups()[g].dense_lanes = geometry_.groups[g].lanes;
  }
  slots_[slot] = sequence;
  ++sequence_count_;
  return sequence;
}

Sequence* Tables::find(SequenceId id) const {
  const auto slot = static_cast<std::uint32_t>(static_cast<std::uint64_t>(id));
  if (slot >= slots_.size()) return nullptr;
  Sequence* sequence = slots_[slot];
  return sequence != nullptr && sequence->id == id ? sequence : nullptr;
}

void Tables::drop(Sequence& sequence) {
  QUIRE_CHECK(!growing());
  index_.tick();
  leave_moves(sequence);
  const bool shared = shares(sequence);
  erase(sequence);
  bool evicted = false;
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i] == nullptr || slots_[i]->dropped == 0) continue;
    evicted = true;
    if (shared) mark_sparse(*slots_[i]);  // what it shared with the one dropped may move now
  }
  if (!evicted) set_spares_aside(0);  // nothing to move: the room is for rows
  settle_headroom();
}

// With another sequence.
bool Tables::shares(const Sequence& sequence) const {
  for (std::size_t g = 0; g < geometry_.groups.size(); ++g) {
    const PagedList<ExtentRef>& list = sequence.groups()[g].extents;
    for (std::uint32_t i = 0; i < list.size(); ++i) {
      if (list[i].extent->shared(Idle::kGone)) return true;
    }
  }
  return false;
}

void Tables::erase(Sequence& sequence) {
  slots_[sequence.slot] = nullptr;
  --sequence_count_;
  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    const PagedList<ExtentRef>& list = sequence.groups()[g].extents;
    for (std::uint32_t i = 0; i < list.size(); ++i) unreference(g, list[i]);
  }
  release_lists(sequence);
  pool_.release_array(reinterpret_cast<std::byte*>(&sequence));
  std::uint32_t slots = slots_.size();
  while (slots > 0 && slots_[slots - 1] == nullptr) --slots;
  slots_.resize(nodes_, slots);
}

void Tables::release_lists(Sequence& sequence) {
  for (std::size_t g = 0; g < geometry_.groups.size(); ++g) {
    sequence.groups()[g].extents.resize(nodes_, 0);
  }
  for (std::uint32_t l = 0; l < geometry_.lanes; ++l) {
    Lane& table = sequence.lanes(geometry_)[l];
    for (std::uint32_t i = 0; i < table.rows.size(); ++i) {
      if (table.rows[i].packed()) unreference_pack(table.rows[i]);
    }
    table.rows.resize(nodes_, 0);
    table.taps.resize(nodes_, 0);
  }
  sequence.queries.resize(nodes_, 0);
  sequence.gate_queries.resize(nodes_, 0);
  sequence.roles.resize(nodes_, 0);
}

// --- extents ---

bool Tables::acquire_blocks(const LayerGroup& group, std::span<BlockId> out) {
  if (placing_ == BlockPlacing::kSpread) return pool_.acquire(group.format, out);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if ((out[i] = pool_.acquire(group.format)) != kNoBlock) continue;
    while (i > 0) pool_.release(out[--i]);
    return false;
  }
  return true;
}

Extent* Tables::make_extent(const LayerGroup& group, std::uint32_t ordinal) {
  std::byte* memory = pool_.acquire_array(Extent::bytes(group));
  if (memory == nullptr) return nullptr;
  auto* extent = reinterpret_cast<Extent*>(memory);
  if (!acquire_blocks(group, {extent->blocks(), group.lanes})) {
    pool_.release_array(memory);
    return nullptr;
  }
  if (++next_extent_ == 0) ++next_extent_;  // 0 is a released extent's
  extent->generation = next_extent_;
  extent->references = 1;
  extent->ordinal = ordinal;
  extent->held = group.lanes;
  extent->holes = 0;
  extent->unit = 0;
  return extent;
}

void Tables::free_extent(const LayerGroup& group, Extent* extent) {
  for (std::uint32_t lane = 0; lane < group.lanes; ++lane) {
    if (extent->blocks()[lane] != kNoBlock) release_block(*extent, lane);
  }
  extent->generation = 0;
  pool_.release_array(reinterpret_cast<std::byte*>(extent));
}

Extent& Tables::checked(const ExtentRef& ref) const {
  QUIRE_CHECK(ref.extent->generation == ref.generation);
  return *ref.extent;
}

void Tables::unreference(std::uint32_t group, const ExtentRef& ref) {
  Extent& extent = checked(ref);
  if (--extent.references == 0) {
    free_extent(geometry_.groups[group], &extent);
  } else if (extent.unit != 0) {
    follow_owners(group, extent);
  } else if (extent.references == 1 && extent.holes != 0) {
    reclaim(group, extent);
  }
}

// The extent has one owner left: what that owner has evicted of it is free now.
void Tables::reclaim(std::uint32_t group, Extent& extent) {
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot] == nullptr) continue;
    const PagedList<ExtentRef>& list = slots_[slot]->groups()[group].extents;
    const std::uint32_t i = lower_bound(list, extent.ordinal);
    if (i == list.size() || list[i].extent != &extent) continue;
    release_dead_blocks(*slots_[slot], group, extent);
    extent.holes = 0;
    return;
  }
  // No owner: the reference left is one that the step being published replaces as well.
}

Extent& Tables::extent_of(const Sequence& sequence, LanePlace at, const Row& row) const {
  const PagedList<ExtentRef>& list = sequence.groups()[at.group].extents;
  return checked(list[lower_bound(list, row.place / geometry_.block_tokens)]);
}

void Tables::unreference_pack(const Row& row) {
  Pack& pack = pack_of(row);
  QUIRE_CHECK(pack.references > 0);
  if (--pack.references == 0) release_pack(row);
}

void Tables::release_pack(const Row& row) {
  pool_.release(row.block);
  release_pack_array(pool_.address(row.pack()));
}

void Tables::release_block(Extent& extent, std::uint32_t lane) {
  pool_.release(extent.blocks()[lane]);
  extent.blocks()[lane] = kNoBlock;
  --extent.held;
}

void Tables::release_dead_blocks(const Sequence& sequence, std::uint32_t group, Extent& extent) {
  if (reclaim_ == Reclaim::kNever) return;
  const Position base = extent.ordinal * geometry_.block_tokens;
  for (std::uint32_t l = 0; l < geometry_.groups[group].lanes; ++l) {
    const Lane& table = lane(sequence, {group, l});
    if (table.own == 0 || extent.blocks()[l] == kNoBlock || has_row(table, base)) continue;
    release_block(extent, l);
  }
}

// --- lanes ---

std::uint32_t Tables::live(const Sequence& sequence, LanePlace at) const {
  const Lane& table = lane(sequence, at);
  if (table.own != 0) return table.live;
  return sequence.length + sequence.pending - first_ordinal(sequence, at);
}

Ordinal Tables::first_ordinal(const Sequence& sequence, LanePlace at) const {
  const Lane& table = lane(sequence, at);
  if (table.own != 0) return table.first;
  const PagedList<ExtentRef>& list = sequence.groups()[at.group].extents;
  return list.empty() ? sequence.length : list[0].ordinal * geometry_.block_tokens;
}

BlockId Tables::block_at(const Sequence& sequence, LanePlace at, std::uint32_t ordinal) const {
  const PagedList<ExtentRef>& list = sequence.groups()[at.group].extents;
  // The step's extents are the last of the list, without gaps.
  return list[list.size() - 1 - (list.back().ordinal - ordinal)].extent->blocks()[at.lane];
}

std::uint64_t Tables::bits_below(Position base, Position end) const {
  const std::uint32_t count = std::min(end - base, geometry_.block_tokens);
  return count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

std::uint32_t Tables::lower_bound(const PagedList<ExtentRef>& list, std::uint32_t ordinal) {
  std::uint32_t begin = 0, end = list.size();
  while (begin < end) {
    const std::uint32_t middle = begin + (end - begin) / 2;
    if (list[middle].ordinal < ordinal) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// Rank of the first row that begins at or above `position`.
std::uint32_t Tables::lower_bound(const PagedList<Row>& rows, Position position) const {
  std::uint32_t begin = 0, end = rows.size();
  while (begin < end) {
    const std::uint32_t middle = begin + (end - begin) / 2;
    if (first_position(rows[middle]) < position) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

bool Tables::has_row(const Lane& lane, Position base) const {
  const std::uint32_t i = lower_bound(lane.rows, base);
  return i < lane.rows.size() && lane.rows[i].place == base;
}

// --- headroom ---

std::size_t Tables::headroom_of(const Sequence& sequence) const {
  std::size_t nodes = 0;
  for (std::size_t g = 0; g < geometry_.groups.size(); ++g) {
    if (geometry_.groups[g].window != 0) continue;
    const GroupState& state = sequence.groups()[g];
    nodes += state.dense_lanes * PagedList<Row>::nodes_for(state.extents.size());
  }
  return nodes;
}

bool Tables::settle_headroom() {
  std::size_t nodes = 0;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot] != nullptr) nodes += headroom_of(*slots_[slot]);
  }
  return nodes_.set_headroom(nodes);
}

}  // namespace quire
