// Which entries of a lane a row sees, and the pieces of blocks that make one tile of 512 ordinals.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/half.h"
#include "kernels/kernels.h"

namespace quire::kernels {
namespace {

// Ordinals [begin, end).
struct Interval {
  std::uint32_t begin, end;
};

inline std::uint32_t smaller(std::uint32_t a, std::uint32_t b) {
  return a < b ? a : b;
}
inline std::uint32_t larger(std::uint32_t a, std::uint32_t b) {
  return a > b ? a : b;
}
inline Interval overlap(Interval a, Interval b) {
  const std::uint32_t begin = larger(a.begin, b.begin);
  return {begin, larger(begin, smaller(a.end, b.end))};
}

// Rows to take at a time so that no loop is left with few: 7 rows at most 6 at a time are 4 + 3.
inline std::uint32_t even_step(std::uint32_t rows, std::uint32_t most) {
  const std::uint32_t steps = (rows + most - 1) / most;
  return (rows + steps - 1) / steps;
}

inline std::uint32_t live_count(std::uint64_t mask) {
  return static_cast<std::uint32_t>(__builtin_popcountll(mask));
}

// The number of leading elements of a sorted sequence for which `before` holds.
template <typename Before>
inline std::uint32_t partition_point(std::uint32_t count, Before before) {
  std::uint32_t low = 0;
  while (count > 0) {
    const std::uint32_t half = count / 2;
    if (before(low + half)) {
      low += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return low;
}

// One past the last ordinal whose position is at most `position`.
inline Ordinal end_of_position(const LaneView& lane, Position position) {
  if (lane.position != nullptr) {
    return lane.first + partition_point(lane.live, [&](std::uint32_t i) {
             return lane.position[i] <= position;
           });
  }
  const std::uint32_t after = partition_point(
      lane.block_count, [&](std::uint32_t b) { return lane.blocks[b].base <= position; });
  if (after == 0) return lane.first;
  const BlockView& block = lane.blocks[after - 1];
  const std::uint32_t slot = position - block.base;
  const std::uint64_t up_to = slot >= 63 ? ~std::uint64_t{0} : (std::uint64_t{2} << slot) - 1;
  return smaller(block.first_ordinal + live_count(block.live & up_to), lane.first + lane.live);
}

// What a row at `position` sees: causal, inside the window (0 = all).
inline Interval visible_ordinals(const LaneView& lane, Position position, std::uint32_t window) {
  const Ordinal end = end_of_position(lane, position);
  const bool cut = window != 0 && position >= window;
  const Ordinal begin = cut ? end_of_position(lane, position - window) : lane.first;
  return {begin, larger(begin, end)};
}

// 16 slots of K: element (d, slot) at low + d * block_tokens + slot; with blocks of 8 tokens, slots
// 8 to 15 are those of the next block, `high`.
struct KeyUnit {
  const std::byte* low;
  const std::byte* high;
  std::int32_t offset;  // ordinal of the first live slot, less the tile's first ordinal
  std::uint32_t live;   // mask of 16 slots
};

// Rows of V without a dead slot between them.
struct ValueRun {
  const std::byte* v;
  std::uint32_t first, count;  // ordinals [first, first + count) of the tile
};

struct TileView {
  KeyUnit units[kTileOrdinals];
  ValueRun runs[kTileOrdinals];
  std::uint32_t unit_count, run_count;
};

inline void add_units_of_block(const LaneView& lane, const BlockView& block, std::int32_t offset,
                               Interval seen, TileView& tile) {
  for (std::uint32_t slot = 0; slot < lane.block_tokens; slot += 16) {
    const std::uint32_t live = block.live >> slot & 0xffffu;
    const std::int32_t count = static_cast<std::int32_t>(live_count(live));
    if (offset + count > static_cast<std::int32_t>(seen.begin) &&
        offset < static_cast<std::int32_t>(seen.end) && count > 0) {
      const std::byte* k = block.data + slot * bytes_of(lane.key_type);
      tile.units[tile.unit_count++] = {k, k + 8 * bytes_of(lane.key_type), offset, live};
    }
    offset += count;
  }
}

// Blocks of 8 tokens pair up: a second one joins the unit that a first one opened.
inline void add_half_unit(const BlockView& block, std::int32_t offset, bool second,
                          TileView& tile) {
  const std::uint32_t live = block.live & 0xffu;
  if (second) {
    KeyUnit& unit = tile.units[tile.unit_count - 1];
    unit.high = block.data;
    unit.live |= live << 8;
  } else {
    tile.units[tile.unit_count++] = {block.data, block.data, offset, live};
  }
}

inline void add_runs_of_block(const LaneView& lane, const BlockView& block, std::int32_t offset,
                              Interval seen, TileView& tile) {
  const std::size_t row_bytes = lane.value_size * bytes_of(lane.value_type);
  const std::byte* v = block.data + lane.value_offset;
  const std::uint64_t slots =
      lane.block_tokens >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << lane.block_tokens) - 1;
  std::uint64_t live = block.live & slots;
  while (live != 0) {
    const std::uint32_t slot = static_cast<std::uint32_t>(__builtin_ctzll(live));
    const std::uint64_t dead = ~(live >> slot);
    const std::uint32_t length =
        dead == 0 ? 64 - slot : static_cast<std::uint32_t>(__builtin_ctzll(dead));
    const std::int32_t begin = offset > static_cast<std::int32_t>(seen.begin)
                                   ? offset
                                   : static_cast<std::int32_t>(seen.begin);
    const std::int32_t run_end = offset + static_cast<std::int32_t>(length);
    const std::int32_t end = run_end < static_cast<std::int32_t>(seen.end)
                                 ? run_end
                                 : static_cast<std::int32_t>(seen.end);
    if (begin < end) {
      const std::size_t row = slot + static_cast<std::size_t>(begin - offset);
      tile.runs[tile.run_count++] = {v + row * row_bytes, static_cast<std::uint32_t>(begin),
                                     static_cast<std::uint32_t>(end - begin)};
    }
    offset = run_end;
    live = slot + length >= 64 ? 0 : live >> (slot + length) << (slot + length);
  }
}

// Lists what the ordinals `seen`, relative to `tile_begin`, are made of.
inline void view_tile(const LaneView& lane, Ordinal tile_begin, Interval seen, TileView& tile) {
  tile.unit_count = tile.run_count = 0;
  const Ordinal first = tile_begin + seen.begin, last = tile_begin + seen.end;
  const std::uint32_t after = partition_point(
      lane.block_count, [&](std::uint32_t b) { return lane.blocks[b].first_ordinal <= first; });
  bool open = false;  // a unit of one 8-token block waits for its second
  for (std::uint32_t b = after == 0 ? 0 : after - 1; b < lane.block_count; ++b) {
    const BlockView& block = lane.blocks[b];
    if (block.first_ordinal >= last) break;
    if (block.live == 0) continue;
    const std::int32_t offset = static_cast<std::int32_t>(block.first_ordinal - tile_begin);
    if (lane.block_tokens == 8) {
      add_half_unit(block, offset, open, tile);
      open = !open;
    } else {
      add_units_of_block(lane, block, offset, seen, tile);
    }
    add_runs_of_block(lane, block, offset, seen, tile);
  }
}

// Blocks that will be read soon, to be fetched a few at a time while there is arithmetic to hide
// it.
struct Ahead {
  const BlockView* next;
  std::uint32_t left, at_once;

  void prefetch(const LaneView& lane) {
    const std::size_t bytes = lane.value_offset + std::size_t{lane.block_tokens} * lane.value_size *
                                                      bytes_of(lane.value_type);
    for (std::uint32_t i = smaller(at_once, left); i > 0; --i, --left, ++next) {
      for (std::size_t b = 0; b < bytes; b += 64) __builtin_prefetch(next->data + b, 0, 2);
    }
  }
};

// The blocks of `ordinals`, to be fetched in `times` calls.
inline Ahead blocks_ahead(const LaneView& lane, Interval ordinals, std::uint32_t times) {
  const auto block_at = [&](Ordinal ordinal) {
    return partition_point(lane.block_count,
                           [&](std::uint32_t b) { return lane.blocks[b].first_ordinal < ordinal; });
  };
  if (ordinals.begin >= ordinals.end) return {lane.blocks, 0, 0};
  const std::uint32_t first = block_at(ordinals.begin), count = block_at(ordinals.end) - first;
  return {lane.blocks + first, count, (count + times - 1) / times};
}

}  // namespace
}  // namespace quire::kernels
