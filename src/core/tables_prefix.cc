// The prefix index as an owner of extents: entering, evicting, and what is idle meanwhile.
#include <algorithm>
#include <bit>

#include "core/tables.h"
#include "quire/check.h"

namespace quire {

// --- entering ---

const ExtentRef* Tables::extent_at(const Sequence& sequence, std::uint32_t group,
                                   std::uint32_t ordinal) const {
  const PagedList<ExtentRef>& list = sequence.groups()[group].extents;
  const std::uint32_t i = lower_bound(list, ordinal);
  return i < list.size() && list[i].ordinal == ordinal ? &list[i] : nullptr;
}

std::uint32_t Tables::index(Sequence& sequence, const PrefixText& text) {
  QUIRE_CHECK(!growing());
  if (!index_.enabled()) return 0;
  index_.tick();
  const PrefixText read{
      text.tokens.first(std::min<std::size_t>(text.tokens.size(), sequence.length)), text.salt,
      text.keys};
  PrefixKeys scratch;
  const std::span<const PrefixKeys::Unit> keys = index_.keys_of(read, scratch);
  std::uint32_t cached = 0;
  bool hole = false;
  for (std::uint32_t i = 0; i + 1 < keys.size(); ++i) {
    const UnitName name = index_.name(read, keys, i);
    Unit* unit = index_.find(name);
    // What was computed after an eviction is not what the text alone gives.
    if (sequence.dropped == 0) unit = enter(sequence, name, keys[i + 1].fingerprint, i, unit);
    hole = hole || unit == nullptr;
    cached += hole ? 0 : geometry_.block_tokens;
  }
  return cached;
}

// Gives a unit what it lacks and the sequence has; a new one, if it is not there.
Unit* Tables::enter(const Sequence& sequence, const UnitName& name, std::uint64_t fingerprint,
                    std::uint32_t ordinal, Unit* unit) {
  // An extent is of one unit only: that of another text, if a caller mixes them up.
  const auto offered = [&](std::uint32_t group) -> const ExtentRef* {
    const ExtentRef* ref = extent_at(sequence, group, ordinal);
    return ref != nullptr && ref->extent->unit == 0 ? ref : nullptr;
  };
  if (unit == nullptr) {
    bool base = false;
    for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
      if (index_.part_of(g) != Unit::kBase) continue;
      if (offered(g) != nullptr) {
        base = true;
      } else if (geometry_.groups[g].window == 0) {
        return nullptr;
      }
    }
    if (!base) return nullptr;
    while ((unit = index_.make(name, fingerprint, ordinal)) == nullptr) {
      if (!evict_prefix(PartUse::kExpected)) return nullptr;
    }
  }
  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    UnitExtent& share = index_.extent(*unit, g);
    const ExtentRef* ref = share.extent == nullptr ? offered(g) : nullptr;
    if (ref == nullptr) continue;
    share = {ref->extent, ref->generation, 0};
    ref->extent->unit = index_.handle(*unit);
    ++checked(*ref).references;
    follow_owners(g, *ref->extent);
  }
  return unit;
}

// --- letting go ---

bool Tables::evict_prefix(PartUse most) {
  Part* victim = index_.victim(most);
  if (victim == nullptr) return false;
  drop_part(*victim);
  return true;
}

void Tables::drop_part(Part& part) {
  Unit& unit = *part.unit;
  if (part.which == Unit::kWindow) {
    drop_extents(unit, Unit::kWindow);
  } else {
    drop_unit(unit);
  }
}

void Tables::drop_unit(Unit& unit) {
  drop_extents(unit, Unit::kWindow);  // of no use alone
  drop_extents(unit, Unit::kBase);
  index_.note_evicted(unit);
  index_.erase(unit);
}

void Tables::drop_extents(Unit& unit, std::uint32_t which) {
  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    UnitExtent& share = index_.extent(unit, g);
    if (index_.part_of(g) != which || share.extent == nullptr) continue;
    for (std::uint32_t l = 0; l < geometry_.groups[g].lanes; ++l) set_idle(unit, g, l, false);
    if (share.idle != 0) pool_.set_idle(reinterpret_cast<std::byte*>(share.extent), false);
    share.extent->unit = 0;
    unreference(g, {share.extent, share.extent->ordinal, share.generation});
    share = {};
  }
  index_.set_use(unit.parts[which], PartUse::kAbsent);
}

void Tables::forget() {
  while (Unit* unit = index_.any()) drop_unit(*unit);
}

void Tables::forget(const PrefixText& text) {
  if (!index_.enabled()) return;
  for (Unit* unit : find_prefix(text, {}, ~0u).units) {
    if (unit != nullptr) drop_unit(*unit);
  }
}

// Blocks that only these views and the index hold are the views' to move.
void Tables::claim_blocks(const Sequence& sequence, LanePlace at) {
  if (index_.empty()) return;
  const PagedList<Row>& rows = lane(sequence, at).rows;
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    if (rows[i].packed() || rows[i].live == bits_below(0, geometry_.block_tokens)) continue;
    const Extent& extent = extent_of(sequence, at, rows[i]);
    if (extent.unit == 0 || extent.references - 1 != views_.size()) continue;
    drop_part(index_.unit_of(extent.unit).parts[index_.part_of(at.group)]);
  }
}

// --- owners ---

void Tables::reference(std::uint32_t group, const ExtentRef& ref) {
  ++checked(ref).references;
  follow_owners(group, *ref.extent);
}

const Sequence* Tables::owner_of(std::uint32_t group, const Extent& extent) const {
  if (extent.references != 2) return nullptr;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot] == nullptr) continue;
    const ExtentRef* ref = extent_at(*slots_[slot], group, extent.ordinal);
    if (ref != nullptr && ref->extent == &extent) return slots_[slot];
  }
  return nullptr;
}

// Idle is all that evicting the unit would free: everything, where the index is alone; and what the
// one sequence beside it has evicted.
void Tables::follow_owners(std::uint32_t group, Extent& extent) {
  if (extent.unit == 0) return;
  Unit& unit = index_.unit_of(extent.unit);
  const bool alone = extent.references == 1;
  if (alone) extent.holes = 0;
  const bool holes = extent.holes != 0 && reclaim_ != Reclaim::kNever;
  const Sequence* owner = holes ? owner_of(group, extent) : nullptr;
  const Position base = extent.ordinal * geometry_.block_tokens;
  for (std::uint32_t l = 0; l < geometry_.groups[group].lanes; ++l) {
    const bool own = owner != nullptr && lane(*owner, {group, l}).own != 0;
    set_idle(unit, group, l, alone || (own && !has_row(lane(*owner, {group, l}), base)));
  }
  UnitExtent& share = index_.extent(unit, group);
  if ((share.idle != 0) != alone) {
    share.idle = alone ? 1 : 0;
    pool_.set_idle(reinterpret_cast<std::byte*>(&extent), alone);
  }
  follow_use(unit, index_.part_of(group));
}

// A sequence gave up its entries of a lane's block.
void Tables::mark_dead(std::uint32_t group, Extent& extent, std::uint32_t lane) {
  if (extent.unit == 0 || extent.references != 2 || reclaim_ == Reclaim::kNever) return;
  Unit& unit = index_.unit_of(extent.unit);
  set_idle(unit, group, lane, true);
  follow_use(unit, index_.part_of(group));
}

void Tables::set_idle(Unit& unit, std::uint32_t group, std::uint32_t lane, bool idle) {
  std::uint64_t& word = index_.idle(unit, group)[lane / 64];
  const std::uint64_t bit = std::uint64_t{1} << (lane % 64);
  if (((word & bit) != 0) == idle) return;
  word ^= bit;
  pool_.set_idle(index_.extent(unit, group).extent->blocks()[lane], idle);
}

PartUse Tables::use_of(const Unit& unit, std::uint32_t which) const {
  bool present = false, frees = false;
  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    if (index_.part_of(g) != which || index_.extent(unit, g).extent == nullptr) continue;
    present = true;
    frees =
        frees || std::ranges::any_of(index_.idle(unit, g), [](std::uint64_t w) { return w != 0; });
  }
  if (!present) return PartUse::kAbsent;
  if (!frees) return PartUse::kRead;
  return unit.expected == 0 ? PartUse::kUnused : PartUse::kExpected;
}

void Tables::follow_use(Unit& unit, std::uint32_t which) {
  index_.set_use(unit.parts[which], use_of(unit, which));
}

std::uint32_t Tables::idle_blocks(std::uint32_t group, const Extent& extent) const {
  if (extent.unit == 0) return 0;
  std::uint32_t blocks = 0;
  for (const std::uint64_t word : index_.idle(index_.unit_of(extent.unit), group)) {
    blocks += static_cast<std::uint32_t>(std::popcount(word));
  }
  return blocks;
}

PrefixStats Tables::prefix_stats() const {
  PrefixStats stats = index_.stats;
  stats.units = index_.size();
  stats.bytes = pool_.bytes().idle;
  return stats;
}

void Tables::check_prefix(const Unit& unit) const {
  for (const Part& part : unit.parts) QUIRE_CHECK(part.use == use_of(unit, part.which));
  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    const UnitExtent& share = index_.extent(unit, g);
    if (share.extent == nullptr) continue;
    const Extent& extent = checked({share.extent, unit.depth, share.generation});
    QUIRE_CHECK(extent.unit == index_.handle(unit) && extent.ordinal == unit.depth);
    const bool alone = extent.references == 1;
    QUIRE_CHECK((share.idle != 0) == alone && (!alone || extent.holes == 0));
    const Sequence* owner = extent.holes != 0 ? owner_of(g, extent) : nullptr;
    if (extent.references == 2 && owner == nullptr && extent.holes != 0) continue;  // replaced now
    std::uint32_t idle = 0;
    for (std::uint32_t l = 0; l < geometry_.groups[g].lanes; ++l) {
      QUIRE_CHECK(extent.blocks()[l] != kNoBlock);  // exact
      if (alone) ++idle;
      if (owner == nullptr || reclaim_ == Reclaim::kNever) continue;
      const Lane& table = lane(*owner, {g, l});
      idle += table.own != 0 && !has_row(table, extent.ordinal * geometry_.block_tokens) ? 1 : 0;
    }
    QUIRE_CHECK(idle == idle_blocks(g, extent));
  }
}

}  // namespace quire
