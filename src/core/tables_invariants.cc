// Recounts from the sequences everything that extents, lanes and the pool believe.
#include <bit>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "core/tables.h"
#include "quire/check.h"

namespace quire {
namespace {

struct Counts {
  std::unordered_map<const Extent*, std::uint32_t> references;
  std::unordered_map<std::uint32_t, std::uint32_t> packs;  // references, by address in the pool
  std::unordered_set<std::uint32_t> blocks;
  std::size_t block_bytes = 0, array_bytes = 0;

  void nodes(std::size_t count) { array_bytes += count * Pool::array_bytes(kNodeBytes); }
  void extent(const ExtentRef& ref, const LayerGroup& group) {
    if (++references[ref.extent] > 1) return;
    array_bytes += Pool::array_bytes(Extent::bytes(group));
    std::uint32_t held = 0;
    for (std::uint32_t l = 0; l < group.lanes; ++l) {
      const BlockId block = ref.extent->blocks()[l];
      if (block == kNoBlock) continue;
      QUIRE_CHECK(blocks.insert(static_cast<std::uint32_t>(block)).second);  // else two owners
      block_bytes += group.block_bytes;
      ++held;
    }
    QUIRE_CHECK(held == ref.extent->held && held > 0);
  }
  void pack(const Row& row, const LayerGroup& group, std::uint32_t block_tokens,
            std::uint32_t readers) {
    const auto [found, fresh] = packs.emplace(row.place, 0);
    found->second += readers;
    if (!fresh) return;
    QUIRE_CHECK(blocks.insert(static_cast<std::uint32_t>(row.block)).second);
    block_bytes += group.block_bytes;
    array_bytes += Pool::array_bytes(Pack::bytes(block_tokens));
  }
};

}  // namespace

// The entries of a pack ascend from its base, up to where the next row begins.
void Tables::check_pack(const Row& row, Position end) const {
  const Pack& pack = pack_of(row);
  QUIRE_CHECK((row.live & ~bits_below(0, geometry_.block_tokens)) == 0);
  std::uint32_t least = 0;
  for (std::uint64_t live = row.live; live != 0; live &= live - 1) {
    const std::uint32_t step = pack.step()[std::countr_zero(live)];
    QUIRE_CHECK(step >= least && pack.base + step < end);
    least = step + 1;
  }
}

// Ascending, live, in its extent's block or a pack, and nothing beyond the sequence's length.
void Tables::check_table(const Sequence& sequence, LanePlace at) const {
  const Lane& table = lane(sequence, at);
  const PagedList<ExtentRef>& list = sequence.groups()[at.group].extents;
  std::uint32_t live = 0, extent = 0;
  for (std::uint32_t i = 0; i < table.rows.size(); ++i) {
    const Row& row = table.rows[i];
    const Position end = sequence.length + sequence.pending;
    QUIRE_CHECK(row.live != 0 && first_position(row) < end);
    QUIRE_CHECK(i == 0 || first_position(table.rows[i - 1]) < first_position(row));
    live += static_cast<std::uint32_t>(std::popcount(row.live));
    if (row.packed()) {
      const bool last = i + 1 == table.rows.size();
      check_pack(row, last ? sequence.length : first_position(table.rows[i + 1]));
      continue;
    }
    QUIRE_CHECK((row.live & ~bits_below(row.place, end)) == 0);
    while (extent < list.size() && list[extent].ordinal * geometry_.block_tokens < row.place) {
      ++extent;
    }
    QUIRE_CHECK(extent < list.size());
    QUIRE_CHECK(list[extent].ordinal * geometry_.block_tokens == row.place);
    QUIRE_CHECK(list[extent].extent->blocks()[at.lane] == row.block && row.block != kNoBlock);
  }
  QUIRE_CHECK(live == table.live);
}

void Tables::check_group(const Sequence& sequence, std::uint32_t group) const {
  const PagedList<ExtentRef>& list = sequence.groups()[group].extents;
  const std::uint32_t block_tokens = geometry_.block_tokens;
  const bool dense = sequence.groups()[group].dense_lanes > 0;
  std::uint32_t dense_lanes = 0;
  for (std::uint32_t l = 0; l < geometry_.groups[group].lanes; ++l) {
    const Lane& table = lane(sequence, {group, l});
    dense_lanes += table.own == 0 ? 1 : 0;
    QUIRE_CHECK(table.own != 0 || table.rows.empty());
    if (table.own != 0) check_table(sequence, {group, l});
    const bool taps = sequence.taps == TapState::kOn && geometry_.groups[group].window == 0;
    const std::uint32_t sums = taps ? live(sequence, {group, l}) : 0;
    QUIRE_CHECK(table.taps.size() == sums * tap_stride(sequence, {group, l}));
  }
  QUIRE_CHECK(dense_lanes == sequence.groups()[group].dense_lanes);
  for (std::uint32_t i = 0; i < list.size(); ++i) {
    const Extent& extent = checked(list[i]);
    QUIRE_CHECK(extent.ordinal == list[i].ordinal);
    QUIRE_CHECK(i == 0 || list[i - 1].ordinal < list[i].ordinal);
    QUIRE_CHECK(!dense || i == 0 || list[i - 1].ordinal + 1 == list[i].ordinal);
    for (std::uint32_t l = 0; l < geometry_.groups[group].lanes; ++l) {
      const Lane& table = lane(sequence, {group, l});
      const bool held = extent.blocks()[l] != kNoBlock;
      if (table.own == 0) QUIRE_CHECK(held);
      const bool row = table.own != 0 && has_row(table, extent.ordinal * block_tokens);
      const bool exact = table.own != 0 && !extent.shared() && reclaim_ != Reclaim::kNever;
      if (exact) QUIRE_CHECK(held == row);
    }
  }
  if (!dense || sequence.length + sequence.pending == 0) return;
  const std::uint64_t end = std::uint64_t{sequence.length} + sequence.pending;
  if (geometry_.groups[group].window == 0) QUIRE_CHECK(list[0].ordinal == 0);
  if (!list.empty()) QUIRE_CHECK(list.back().ordinal == (end - 1) / block_tokens);
}

void Tables::check_invariants() const {
  pool_.check_invariants();
  Counts counts;
  std::size_t headroom = 0, idle = 0;
  std::uint32_t sequences = 0;
  counts.nodes(PagedList<Sequence*>::nodes_for(slots_.size()));
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot] == nullptr) continue;
    const Sequence& sequence = *slots_[slot];
    ++sequences;
    QUIRE_CHECK(sequence.slot == slot && find(sequence.id) == &sequence);
    counts.array_bytes += Pool::array_bytes(Sequence::bytes(geometry_));
    for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
      check_group(sequence, g);
      const PagedList<ExtentRef>& list = sequence.groups()[g].extents;
      counts.nodes(PagedList<ExtentRef>::nodes_for(list.size()));
      for (std::uint32_t i = 0; i < list.size(); ++i) {
        counts.extent(list[i], geometry_.groups[g]);
      }
    }
    for (std::uint32_t l = 0; l < geometry_.lanes; ++l) {
      const Lane& table = sequence.lanes(geometry_)[l];
      counts.nodes(PagedList<Row>::nodes_for(table.rows.size()) +
                   PagedList<std::int64_t>::nodes_for(table.taps.size()));
      const LayerGroup& group = geometry_.groups[geometry_.group_of(l)];
      for (std::uint32_t i = 0; i < table.rows.size(); ++i) {
        const Row& row = table.rows[i];
        if (row.packed()) counts.pack(row, group, geometry_.block_tokens, 1);
      }
    }
    const std::uint32_t queries = sequence.queries.size();
    QUIRE_CHECK(queries == 0 || (sequence.needs.future != 0 && queries == geometry_.query_floats));
    QUIRE_CHECK(queries != 0 || geometry_.query_floats == 0 || sequence.query_rows == 0);
    counts.nodes(PagedList<float>::nodes_for(queries));
    const std::uint32_t gate = sequence.gate_queries.size();
    QUIRE_CHECK(gate == 0 || (sequence.gate_on != 0 &&
                              gate == sequence.needs.gate_rows * geometry_.gate_floats));
    QUIRE_CHECK(sequence.gate_rows <= sequence.needs.gate_rows);
    QUIRE_CHECK(gate != 0 || geometry_.gate_floats == 0 || sequence.gate_rows == 0);
    counts.nodes(PagedList<float>::nodes_for(gate));
    QUIRE_CHECK(sequence.roles.empty() || sequence.needs.roles);
    std::uint64_t structured = 0;
    for (std::uint32_t i = 0; i < sequence.roles.size(); ++i) {
      structured += sequence.roles[i] != Role::kProse ? 1 : 0;
    }
    QUIRE_CHECK(structured == sequence.structured);
    counts.nodes(PagedList<Role>::nodes_for(sequence.roles.size()));
    headroom += headroom_of(sequence);
  }
  index_.check_invariants();
  index_.for_each([&](const Unit& unit) {
    check_prefix(unit);
    counts.array_bytes += Pool::array_bytes(index_.record_bytes());
    for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
      const UnitExtent& share = index_.extent(unit, g);
      if (share.extent == nullptr) continue;
      counts.extent({share.extent, unit.depth, share.generation}, geometry_.groups[g]);
      if (share.idle != 0) idle += Pool::array_bytes(Extent::bytes(geometry_.groups[g]));
      idle += idle_blocks(g, *share.extent) * geometry_.groups[g].block_bytes;
    }
    idle += Pool::array_bytes(index_.record_bytes());
  });
  for (std::size_t r = 0; r < replaced_.size() && growing(); ++r) {
    if (replaced_[r].extent == nullptr) continue;
    counts.extent(replaced_[r], geometry_.groups[r % geometry_.groups.size()]);
  }
  for (const auto& [extent, references] : counts.references) {
    QUIRE_CHECK(extent->references == references);
  }
  for (const auto& [place, references] : counts.packs) {
    QUIRE_CHECK(pack_of({kNoBlock, place, 0}).references == references);
  }
  std::uint32_t moving = 0;
  for (const MovePlan& plan : moves_.all()) {
    for (const Row& target : plan.targets) {
      QUIRE_CHECK(pack_of(target).references == 0);
      counts.pack(target, geometry_.groups[plan.at.group], geometry_.block_tokens, 0);
    }
    for (const SequenceId id : plan.views) QUIRE_CHECK(lane(*find(id), plan.at).moving > 0);
    moving += static_cast<std::uint32_t>(plan.views.size());
  }
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot] == nullptr) continue;
    std::uint32_t sparse = 0;
    for (std::uint32_t l = 0; l < geometry_.lanes; ++l) {
      moving -= slots_[slot]->lanes(geometry_)[l].moving;
      sparse += slots_[slot]->lanes(geometry_)[l].sparse;
    }
    QUIRE_CHECK(sparse == slots_[slot]->sparse);
  }
  QUIRE_CHECK(moving == 0);
  for (std::uint32_t g = 0; g < spares_.size(); ++g) {
    Row spare = spares_[g].first;
    for (std::size_t i = 0; i < spares_[g].count; ++i) {
      counts.pack(spare, geometry_.groups[g], geometry_.block_tokens, 0);
      std::memcpy(&spare, pool_.address(spare.block), sizeof(Row));
    }
  }
  counts.array_bytes +=
      spare_arrays_.count * Pool::array_bytes(Pack::bytes(geometry_.block_tokens));
  QUIRE_CHECK(sequences == sequence_count_);
  QUIRE_CHECK(headroom == nodes_.headroom());
  counts.nodes(nodes_.headroom());
  const PoolBytes bytes = pool_.bytes();
  QUIRE_CHECK(counts.block_bytes == bytes.blocks && counts.array_bytes == bytes.arrays);
  QUIRE_CHECK(idle == bytes.idle);
  QUIRE_CHECK(bytes.committed <= bytes.budget && bytes.peak <= bytes.budget);
}

}  // namespace quire
