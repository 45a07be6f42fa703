// Eviction: a lane gets its own table, dead blocks go back to the pool.
#include <bit>

#include "core/tables.h"
#include "quire/check.h"

namespace quire {
namespace {

// The live bits of a row that stay.  `kept` are ranks; `rank` is that of the row's first entry and
// moves to the next row's; `next` is the first of `kept` not yet passed.
std::uint64_t kept_bits(std::uint64_t live, std::span<const Ordinal> kept, std::uint32_t& rank,
                        std::size_t& next) {
  const auto end = rank + static_cast<std::uint32_t>(std::popcount(live));
  const std::uint32_t count = end - rank;
  if (count > 0 && next + count <= kept.size() && kept[next] == rank &&
      kept[next + count - 1] == end - 1) {  // all of it
    next += count;
    rank = end;
    return live;
  }
  std::uint64_t result = 0;
  if (next < kept.size() && kept[next] < end) {
    for (std::uint64_t rest = live; rest != 0; rest &= rest - 1, ++rank) {
      if (next == kept.size() || kept[next] != rank) continue;
      result |= rest & -rest;
      ++next;
    }
  }
  rank = end;
  return result;
}

}  // namespace

bool Tables::retain(Sequence& sequence, LanePlace at, std::span<const Ordinal> kept) {
  QUIRE_CHECK(!growing());
  const std::uint32_t before = live(sequence, at);
  QUIRE_CHECK(kept.size() <= before && (kept.empty() || kept.back() < before));
  if (kept.size() == before) return true;
  Lane& table = lane(sequence, at);
  if (table.own == 0 && !make_table(sequence, at, kept)) return false;
  filter_rows(sequence, at, kept);
  filter_taps(sequence, at, kept);
  table.live = static_cast<std::uint32_t>(kept.size());
  sequence.dropped += before - table.live;
  mark_sparse(sequence, at);
  if (table.moving != 0) follow_eviction(sequence, at);
  return true;
}

Row Tables::row_at(const Sequence& sequence, LanePlace at, std::uint32_t i) const {
  const Lane& table = lane(sequence, at);
  if (table.own != 0) return table.rows[i];
  const ExtentRef& ref = sequence.groups()[at.group].extents[i];
  const Position base = ref.ordinal * geometry_.block_tokens;
  return {ref.extent->blocks()[at.lane], base, bits_below(base, sequence.length)};
}

// Room for the rows that `kept` leaves, no more: a full lane's was set aside, a window's may fail.
bool Tables::make_table(Sequence& sequence, LanePlace at, std::span<const Ordinal> kept) {
  const std::uint32_t blocks = sequence.groups()[at.group].extents.size();
  std::uint32_t rows = 0, rank = 0;
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    rows += kept_bits(row_at(sequence, at, i).live, kept, rank, next) != 0 ? 1 : 0;
  }
  const bool set_aside = geometry_.groups[at.group].window == 0;
  return lane(sequence, at)
      .rows.resize(nodes_, rows, set_aside ? NodeUse::kEviction : NodeUse::kGrowth);
}

// Moves the rows that stay to the front, or writes them into a table just made, and gives up the
// blocks of the others.
void Tables::filter_rows(Sequence& sequence, LanePlace at, std::span<const Ordinal> kept) {
  Lane& table = lane(sequence, at);
  const std::uint32_t rows = block_count(sequence, at);
  const Ordinal first = first_ordinal(sequence, at);
  std::uint32_t written = 0, rank = 0;
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < rows; ++i) {
    Row row = row_at(sequence, at, i);
    row.live = kept_bits(row.live, kept, rank, next);
    if (row.live != 0) {
      table.rows[written++] = row;
      continue;
    }
    release_dead_row(sequence, at, row);
  }
  QUIRE_CHECK(next == kept.size());  // else not ascending
  table.rows.resize(nodes_, written);
  if (table.own != 0) return;
  table.own = 1;
  table.first = first;
  --sequence.groups()[at.group].dense_lanes;
}

void Tables::release_dead_row(Sequence& sequence, LanePlace at, const Row& row) {
  if (row.packed()) return unreference_pack(row);
  Extent& extent = extent_of(sequence, at, row);
  if (extent.shared() || reclaim_ == Reclaim::kNever) {
    extent.holes = 1;
    mark_dead(at.group, extent, at.lane);
  } else {
    release_block(extent, at.lane);
  }
}

void Tables::filter_taps(Sequence& sequence, LanePlace at, std::span<const Ordinal> kept) {
  PagedList<std::int64_t>& taps = lane(sequence, at).taps;
  if (taps.empty()) return;
  const std::uint32_t stride = tap_stride(sequence, at);
  const auto count = static_cast<std::uint32_t>(kept.size());
  std::uint32_t to = 0;
  while (to < count && kept[to] == to) ++to;  // the first that moves
  for (std::uint32_t end; to < count; to = end) {
    for (end = to + 1; end < count && kept[end] == kept[to] + (end - to);) ++end;
    taps.move_down(kept[to] * stride, to * stride, (end - to) * stride);
  }
  taps.resize(nodes_, count * stride);
}

void Tables::drop_taps(Sequence& sequence) {
  for (std::uint32_t l = 0; l < geometry_.lanes; ++l) {
    sequence.lanes(geometry_)[l].taps.resize(nodes_, 0);
  }
  sequence.taps = TapState::kWaiting;
  sequence.taps_fresh = 0;
  sequence.window_rows = 0;
}

void Tables::settle(Sequence& sequence) {
  QUIRE_CHECK(!growing());
  index_.tick();
  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    GroupState& state = sequence.groups()[g];
    if (state.dense_lanes != 0 || reclaim_ == Reclaim::kNever) continue;
    const auto read = [&](const ExtentRef& ref) {
      const Position base = ref.ordinal * geometry_.block_tokens;
      for (std::uint32_t l = 0; l < geometry_.groups[g].lanes; ++l) {
        if (has_row(lane(sequence, {g, l}), base)) return true;
      }
      return false;
    };
    std::uint32_t written = 0;
    for (std::uint32_t i = 0; i < state.extents.size(); ++i) {
      const ExtentRef ref = state.extents[i];
      const Extent& extent = checked(ref);
      // Alone, a sequence holds exactly the blocks it reads.
      const bool needed = extent.held > 0 && (!extent.shared() || extent.holes == 0 || read(ref));
      if (needed) {
        state.extents[written++] = ref;
      } else {
        state.extents[i].extent = nullptr;  // reclaim() must not find this sequence
        unreference(g, ref);
      }
    }
    state.extents.resize(nodes_, written);
  }
  settle_headroom();
}

}  // namespace quire
