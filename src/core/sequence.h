// What the tables keep of extents and sequences.  All of it lives in zeroed arrays of the pool, so
// every type here is a plain record whose zero bytes are its empty state.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/geometry.h"
#include "core/paged_list.h"
#include "core/pool.h"
#include "quire/policy.h"
#include "quire/types.h"

namespace quire {

// One block of every lane of a layer group over the positions
// [ordinal * block_tokens, (ordinal + 1) * block_tokens).  BlockId[lanes] follows the record.
struct Extent {
  std::uint32_t generation;  // unique; 0 once released
  std::uint32_t references;  // sequences, and the prefix index
  std::uint32_t ordinal;
  std::uint32_t held;   // blocks that are not kNoBlock
  std::uint32_t holes;  // 1: a sequence gave up a block of it while it was shared
  std::uint32_t unit;   // PrefixIndex::handle() of the prefix unit it is part of; 0: none

  BlockId* blocks() { return reinterpret_cast<BlockId*>(this + 1); }
  const BlockId* blocks() const { return reinterpret_cast<const BlockId*>(this + 1); }
  bool shared() const { return references > 1; }
  // Likewise, as if nothing was in the prefix index.
  bool shared(Idle idle) const { return references > (unit != 0 && idle == Idle::kGone ? 2u : 1u); }
  static std::size_t bytes(const LayerGroup& group) {
    return sizeof(Extent) + group.lanes * sizeof(BlockId);
  }
};

// A sequence's share of an extent.
struct ExtentRef {
  Extent* extent;
  std::uint32_t ordinal;
  std::uint32_t generation;  // of the extent when it was taken
};

// Entries of one lane that a repack brought together in a block of their own: slot i holds the one
// at position base + step[i], ascending.  std::uint16_t step[block_tokens] follows the record, so
// that a pack of 16 is one grain of the pool.
struct Pack {
  static constexpr std::uint32_t kStepMax = 0xFFFF;

  std::uint32_t references;  // rows: of one sequence, and of its forks
  Position base;

  std::uint16_t* step() { return reinterpret_cast<std::uint16_t*>(this + 1); }
  const std::uint16_t* step() const { return reinterpret_cast<const std::uint16_t*>(this + 1); }
  static std::size_t bytes(std::uint32_t block_tokens) {
    return sizeof(Pack) + block_tokens * sizeof(std::uint16_t);
  }
};

// A block of a lane that has a table: an extent's, or a pack's.
struct Row {
  static constexpr std::uint32_t kPacked = std::uint32_t{1} << 31;

  BlockId block;
  std::uint32_t place;  // position of slot 0, a multiple of block_tokens; or kPacked and the Pack
  std::uint64_t live;   // never 0

  bool packed() const { return (place & kPacked) != 0; }
  BlockId pack() const { return BlockId{place & ~kPacked}; }  // its address in the pool
};

struct Lane {
  PagedList<Row> rows;           // own == 1, ascending in position
  PagedList<std::int64_t> taps;  // [live][Tables::tap_stride()], unit 2^-40; empty while off
  std::uint32_t own;             // 1: has a table; 0: dense, blocks implied by the extents
  std::uint32_t live;            // own == 1: entries, those of the running step included
  std::uint32_t first;           // own == 1: ordinals that a window has passed
  std::uint16_t sparse;          // 1: evicted from since a repack looked at it
  std::uint16_t moving;          // 1: a plan of its entries is in flight
};

struct GroupState {
  PagedList<ExtentRef> extents;  // ascending; without gaps while a lane is dense
  std::uint32_t dense_lanes;
};

// Whether a sequence's lanes have tap sums.
enum class TapState : std::uint32_t { kOff, kWaiting, kOn };

// GroupState[groups] and Lane[lanes] follow the record.
struct Sequence {
  SequenceId id;
  std::uint32_t slot;
  std::uint32_t length;       // positions appended
  std::uint32_t pending;      // rows of the running step, at positions [length, length + pending)
  std::uint32_t window_rows;  // summed, Tap::kLastRows: those before position window_end
  std::uint32_t window_rows_pending;  // of the running step
  Position window_end;
  Position prompt_end;      // one past the last row that was no answer's
  Position reviewed;        // length at the last review
  std::uint32_t answering;  // 1: the running step's rows are an answer's
  TapState taps;
  std::uint32_t taps_fresh;  // 1: the running step switched them on
  std::uint64_t dropped;     // entries, by evictions
  std::uint32_t sparse;      // lanes with Lane::sparse
  std::uint32_t settled;     // 1: not wasteful enough to repack, and nothing evicted since
  Needs needs;
  // [Geometry::query_floats] statistics of queries, from the first step on, with Needs::future.
  PagedList<float> queries;
  std::uint32_t query_rows;  // in them
  std::uint32_t query_rows_pending;
  std::uint32_t queries_fresh;  // 1: the running step made room for them
  std::uint32_t reused;         // tokens it began behind, until its first step is published; then 0
  PagedList<Role> roles;        // of positions [0, size), with Needs::roles
  std::uint64_t structured;     // of them, those that are not prose
  // [Needs::gate_rows][Geometry::gate_floats] queries, that of a position at its remainder; from
  // the first step on, while gate_on.
  PagedList<float> gate_queries;
  std::uint32_t gate_on;
  std::uint32_t gate_rows;  // in them: those at the positions [gate_end - gate_rows, gate_end)
  std::uint32_t gate_rows_pending;
  std::uint32_t gate_fresh;  // 1: the running step made room for them
  Position gate_end;

  GroupState* groups() { return reinterpret_cast<GroupState*>(this + 1); }
  const GroupState* groups() const { return reinterpret_cast<const GroupState*>(this + 1); }
  Lane* lanes(const Geometry& geometry) {
    return reinterpret_cast<Lane*>(groups() + geometry.groups.size());
  }
  const Lane* lanes(const Geometry& geometry) const {
    return reinterpret_cast<const Lane*>(groups() + geometry.groups.size());
  }
  static std::size_t bytes(const Geometry& geometry) {
    return sizeof(Sequence) + geometry.groups.size() * sizeof(GroupState) +
           geometry.lanes * sizeof(Lane);
  }
};
static_assert(alignof(Sequence) <= kBlockGrain && sizeof(Sequence) % alignof(GroupState) == 0);
static_assert(sizeof(GroupState) % alignof(Lane) == 0);

}  // namespace quire
