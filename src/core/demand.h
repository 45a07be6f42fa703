// How many slabs a set of allocations takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/geometry.h"
#include "core/pool.h"

namespace quire {

// Where an extent's blocks come from: whole free slabs first, which empty again with the extent, or
// whatever slabs have room, which is all that counts when free slabs are few.
enum class BlockPlacing : std::uint8_t { kSpread, kPacked };

struct SlabNeed {
  std::size_t slabs = 0;
  BlockPlacing placing = BlockPlacing::kSpread;
};

// What must be allocated, before it is known where.
class Demand {
 public:
  Demand(const Pool& pool, const Geometry& geometry, Idle idle = Idle::kThere)
      : pool_(pool), geometry_(geometry), idle_(idle) {}

  void add_extents(std::uint32_t group, std::size_t count);
  void add_blocks(std::uint32_t group, std::size_t count) { of_format(group).rest += count; }
  void add_arrays(std::size_t bytes, std::size_t count);
  void add_nodes(std::size_t count);
  // An array that comes before all others, so that it never finds a slab's rest too small.
  void add_first_array(std::size_t bytes);

  // Slabs of an empty pool.
  std::size_t slabs_of_empty() const { return slabs(BlockPlacing::kPacked, true); }
  // Slabs that the pool must still give; spread, if that many are free.  Never too few: with that
  // many slabs free everything added here can be allocated, in any order.
  SlabNeed need() const;
  Idle idle() const { return idle_; }

 private:
  struct Blocks {
    std::size_t whole_slabs = 0;  // that extents fill alone
    std::size_t rest = 0;         // blocks beside those
  };

  Blocks& of_format(std::uint32_t group);
  std::size_t slabs(BlockPlacing placing, bool empty) const;
  std::size_t array_slabs(bool empty) const;

  const Pool& pool_;
  const Geometry& geometry_;
  const Idle idle_;
  std::array<Blocks, Pool::kFormatsMax> formats_{};  // by FormatId
  std::size_t arrays_ = 0;                           // bytes, as charged
  std::size_t nodes_ = 0;                            // of them, those of nodes
  std::size_t largest_ = 0;                          // of arrays but the first
  std::size_t grain_ = 0;                            // divides every array
};

}  // namespace quire
