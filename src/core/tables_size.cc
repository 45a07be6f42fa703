// What growth costs, in slabs: the unit in which the pool gives room to one use or another.
#include <algorithm>

#include "core/demand.h"
#include "core/tables.h"

namespace quire {

SlabNeed Tables::slabs_needed(std::span<const Growth> growths, std::uint32_t step_rows,
                              Idle idle) const {
  Demand demand(pool_, geometry_, idle);
  add_growth(growths, step_rows, demand);
  return demand.need();
}

void Tables::add_growth(std::span<const Growth> growths, std::uint32_t step_rows,
                        Demand& demand) const {
  for (const Growth& growth : growths) {
    for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
      add_group(growth, g, step_rows, demand);
    }
    const Sequence& sequence = *growth.sequence;
    if (sequence.needs.future != 0 && sequence.queries.empty() && growth.rows > 0) {
      demand.add_nodes(PagedList<float>::nodes_for(geometry_.query_floats));
    }
    if (sequence.gate_on != 0 && sequence.gate_queries.empty() && growth.rows > 0) {
      demand.add_nodes(gate_nodes(sequence.needs));
    }
  }
}

std::size_t Tables::gate_nodes(const Needs& needs) const {
  return PagedList<float>::nodes_for(std::size_t{needs.gate_rows} * geometry_.gate_floats);
}

// Extents that the rows begin, less those that a window passes before the last step.
std::uint32_t Tables::fresh_extents(const Growth& growth, std::uint32_t group,
                                    std::uint32_t step_rows, Idle idle) const {
  const std::uint32_t block_tokens = geometry_.block_tokens,
                      window = geometry_.groups[group].window;
  const auto extents_at = [&](std::uint64_t tokens) {
    return static_cast<std::uint32_t>((tokens + block_tokens - 1) / block_tokens);
  };
  const std::uint64_t length = growth.sequence->length;
  const std::uint32_t fresh = extents_at(length + growth.rows) - extents_at(length);
  if (window == 0 || growth.rows <= step_rows) return fresh;
  // A step sees window - 1 rows and its own, and one block more where they begin inside one.  For
  // the prefix index a block's rows are seen by all that begin in the next.
  const std::uint32_t kept = index_.enabled() ? block_tokens - 1 : 0;
  const std::uint32_t most = extents_at(std::uint64_t{window} - 1 + kept + step_rows) + 1;
  const PagedList<ExtentRef>& list = growth.sequence->groups()[group].extents;
  std::uint32_t released = 0;  // in the end; a shared one stays for its other owner
  for (std::uint32_t i = 0; i < list.size(); ++i) released += list[i].extent->shared(idle) ? 0 : 1;
  return std::min(fresh, std::max(most, released) - released);
}

void Tables::add_group(const Growth& growth, std::uint32_t group, std::uint32_t step_rows,
                       Demand& demand) const {
  const Sequence& sequence = *growth.sequence;
  const LayerGroup& shape = geometry_.groups[group];
  const GroupState& state = sequence.groups()[group];
  const PagedList<ExtentRef>& list = state.extents;
  const std::uint32_t block_tokens = geometry_.block_tokens;
  const std::uint64_t length = sequence.length;
  const std::uint32_t fresh = fresh_extents(growth, group, step_rows, demand.idle());
  const std::uint32_t open_ordinal = sequence.length / block_tokens;
  const bool open = length % block_tokens != 0 && growth.rows > 0;
  const bool open_there = open && !list.empty() && list.back().ordinal == open_ordinal;
  const bool copied = open_there && list.back().extent->shared(demand.idle());
  const bool added = open && !open_there;
  if (open_there && !copied) {
    const Extent& last = *list.back().extent;
    const bool gone = demand.idle() == Idle::kGone;
    demand.add_blocks(group, shape.lanes - last.held + (gone ? idle_blocks(group, last) : 0));
  }
  demand.add_extents(group, fresh + (copied || added ? 1 : 0));
  const std::uint32_t extents = list.size() + fresh + (added ? 1 : 0);
  demand.add_nodes(PagedList<ExtentRef>::nodes_for(extents) -
                   PagedList<ExtentRef>::nodes_for(list.size()));
  if (shape.window == 0) {
    demand.add_nodes(state.dense_lanes *
                     (PagedList<Row>::nodes_for(extents) - PagedList<Row>::nodes_for(list.size())));
  }
  for (std::uint32_t l = 0; l < shape.lanes; ++l) {
    const Lane& table = lane(sequence, {group, l});
    if (table.own != 0) {
      const bool open_row = open && has_row(table, open_ordinal * block_tokens);
      const std::uint32_t rows = table.rows.size() + fresh + (open && !open_row ? 1 : 0);
      demand.add_nodes(PagedList<Row>::nodes_for(rows) -
                       PagedList<Row>::nodes_for(table.rows.size()));
    }
    if (shape.window != 0 || sequence.taps == TapState::kOff) continue;
    const std::size_t sums =
        (std::size_t{live(sequence, {group, l})} + growth.rows) * tap_stride(sequence, {group, l});
    demand.add_nodes(PagedList<std::int64_t>::nodes_for(sums) -
                     PagedList<std::int64_t>::nodes_for(table.taps.size()));
  }
}

std::uint32_t Tables::tokens_that_fit(const Needs& needs, std::uint32_t step_rows) const {
  const auto fits = [&](std::uint64_t tokens) {
    Demand demand(pool_, geometry_);
    demand.add_first_array(Sequence::bytes(geometry_));
    demand.add_nodes(1);  // the list of sequences
    if (needs.future != 0) demand.add_nodes(PagedList<float>::nodes_for(geometry_.query_floats));
    demand.add_nodes(gate_nodes(needs));
    if (needs.roles) demand.add_nodes(PagedList<Role>::nodes_for(tokens));
    for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
      const LayerGroup& group = geometry_.groups[g];
      // A window group holds the last step's rows and what they see.
      const std::uint64_t kept = index_.enabled() ? geometry_.block_tokens - 1 : 0;
      const std::uint64_t seen = std::uint64_t{group.window} + kept + step_rows;
      const std::uint64_t first = group.window == 0 || tokens < seen ? 0 : tokens - seen + 1;
      const std::uint64_t extents = (tokens + geometry_.block_tokens - 1) / geometry_.block_tokens -
                                    first / geometry_.block_tokens;
      demand.add_extents(g, extents);
      demand.add_nodes(PagedList<ExtentRef>::nodes_for(extents));
      if (group.window != 0) continue;
      demand.add_nodes(group.lanes * PagedList<Row>::nodes_for(extents));
      if (needs.tap == Tap::kNone) continue;
      for (std::uint32_t l = 0; l < group.lanes; ++l) {
        const std::uint64_t stride = tap_stride(needs, group.query_heads[l]);
        demand.add_nodes(PagedList<std::int64_t>::nodes_for(tokens * stride));
      }
    }
    return demand.slabs_of_empty() <= pool_.bytes().budget / pool_.slab_bytes();
  };
  std::uint64_t most = 0, over = std::uint64_t{1} << 31;
  while (over - most > 1) {
    const std::uint64_t middle = most + (over - most) / 2;
    (fits(middle) ? most : over) = middle;
  }
  return static_cast<std::uint32_t>(most);
}

SequenceBytes Tables::bytes(const Sequence& sequence) const {
  SequenceBytes bytes;
  std::size_t nodes = headroom_of(sequence) + PagedList<float>::nodes_for(sequence.queries.size()) +
                      PagedList<float>::nodes_for(sequence.gate_queries.size()) +
                      PagedList<Role>::nodes_for(sequence.roles.size());
  bytes.own += Pool::array_bytes(Sequence::bytes(geometry_));
  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    const LayerGroup& group = geometry_.groups[g];
    const PagedList<ExtentRef>& list = sequence.groups()[g].extents;
    nodes += PagedList<ExtentRef>::nodes_for(list.size());
    for (std::uint32_t i = 0; i < list.size(); ++i) {
      const Extent& extent = *list[i].extent;
      const std::size_t blocks = (extent.held - idle_blocks(g, extent)) * group.block_bytes;
      if (extent.shared(Idle::kGone)) {
        bytes.shared += blocks;
      } else {
        bytes.own += blocks + Pool::array_bytes(Extent::bytes(group));
      }
    }
  }
  for (std::uint32_t l = 0; l < geometry_.lanes; ++l) {
    const Lane& table = sequence.lanes(geometry_)[l];
    nodes += PagedList<Row>::nodes_for(table.rows.size()) +
             PagedList<std::int64_t>::nodes_for(table.taps.size());
    const std::size_t block_bytes = geometry_.groups[geometry_.group_of(l)].block_bytes;
    for (std::uint32_t i = 0; i < table.rows.size(); ++i) {
      if (!table.rows[i].packed()) continue;
      if (pack_of(table.rows[i]).references > 1) {
        bytes.shared += block_bytes;
      } else {
        bytes.own += block_bytes + Pool::array_bytes(Pack::bytes(geometry_.block_tokens));
      }
    }
  }
  bytes.own += nodes * Pool::array_bytes(kNodeBytes);
  return bytes;
}

std::uint64_t Tables::blocks(const Sequence& sequence) const {
  std::uint64_t blocks = 0;
  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    const PagedList<ExtentRef>& list = sequence.groups()[g].extents;
    for (std::uint32_t i = 0; i < list.size(); ++i) {
      blocks += list[i].extent->held - idle_blocks(g, *list[i].extent);
    }
  }
  for (std::uint32_t l = 0; l < geometry_.lanes; ++l) {
    const PagedList<Row>& rows = sequence.lanes(geometry_)[l].rows;
    for (std::uint32_t i = 0; i < rows.size(); ++i) blocks += rows[i].packed() ? 1 : 0;
  }
  return blocks;
}

Tables::Filled Tables::filled_blocks(const Sequence& sequence, LanePlace at) const {
  const Lane& table = lane(sequence, at);
  const std::uint32_t whole = sequence.length / geometry_.block_tokens;
  if (table.own == 0) return {whole, whole * geometry_.block_tokens};
  Filled filled{table.rows.size(), table.live};
  if (filled.blocks > 0 && table.rows.back().place == whole * geometry_.block_tokens) {
    --filled.blocks;
    filled.entries -= static_cast<std::uint32_t>(std::popcount(table.rows.back().live));
  }
  return filled;
}

double Tables::waste(const Sequence& sequence) const {
  std::uint64_t blocks = 0, entries = 0;
  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    if (geometry_.groups[g].window != 0) continue;
    for (std::uint32_t l = 0; l < geometry_.groups[g].lanes; ++l) {
      const Filled filled = filled_blocks(sequence, {g, l});
      blocks += filled.blocks;
      entries += filled.entries;
    }
  }
  if (blocks == 0) return 0;
  return 1 - static_cast<double>(entries) /
                 (static_cast<double>(blocks) * static_cast<double>(geometry_.block_tokens));
}

}  // namespace quire
