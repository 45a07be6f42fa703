// Emptying slabs.  A slab belongs to one block format or to arrays until its last release, so a
// pool may have many blocks free and yet no room for a table: then blocks of the emptiest slabs
// move.
#include <cstring>

#include "core/tables.h"
#include "quire/check.h"

namespace quire {

// Extents first: they know which blocks are idle, and their rows follow.
std::size_t Tables::empty_slabs(std::size_t count) {
  QUIRE_CHECK(!growing());
  if (!moves_.all().empty()) return 0;
  const std::size_t closed = pool_.close_emptiest(count);
  if (closed == 0) return 0;
  Moved moved;
  const auto for_each_sequence = [&](auto f) {
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot] != nullptr) f(*slots_[slot]);
    }
  };
  for_each_sequence([&](Sequence& sequence) {
    for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
      const PagedList<ExtentRef>& list = sequence.groups()[g].extents;
      for (std::uint32_t i = 0; i < list.size(); ++i) leave_closed(g, *list[i].extent, moved);
    }
  });
  index_.for_each([&](Unit& unit) {
    for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
      Extent* extent = index_.extent(unit, g).extent;
      if (extent != nullptr) leave_closed(g, *extent, moved);
    }
  });
  for_each_sequence([&](Sequence& sequence) { leave_closed(sequence, moved); });
  for (std::uint32_t g = 0; g < spares_.size(); ++g) {
    Row* spare = &spares_[g].first;
    for (std::size_t i = 0; i < spares_[g].count; ++i) {
      leave_closed(g, spare->block, moved);
      spare = reinterpret_cast<Row*>(pool_.address(spare->block));
    }
  }
  pool_.open_slabs();
  return closed;
}

// One of several names of a block, the others of which may have been changed before.
void Tables::leave_closed(std::uint32_t group, BlockId& block, Moved& moved) {
  if (block == kNoBlock || !pool_.closed(block)) return;
  const auto [place, fresh] = moved.try_emplace(block, kNoBlock);
  if (fresh) {
    const LayerGroup& shape = geometry_.groups[group];
    place->second = pool_.acquire(shape.format);
    QUIRE_CHECK(place->second != kNoBlock);  // else slabs were closed without room for them
    std::memcpy(pool_.address(place->second), pool_.address(block), shape.block_bytes);
    pool_.release(block);
  }
  block = place->second;
}

void Tables::leave_closed(std::uint32_t group, Extent& extent, Moved& moved) {
  for (std::uint32_t l = 0; l < geometry_.groups[group].lanes; ++l) {
    BlockId& block = extent.blocks()[l];
    if (block == kNoBlock || !pool_.closed(block)) continue;
    Unit* unit = extent.unit != 0 ? &index_.unit_of(extent.unit) : nullptr;
    const bool idle = unit != nullptr && (index_.idle(*unit, group)[l / 64] >> (l % 64) & 1) != 0;
    if (idle) set_idle(*unit, group, l, false);
    leave_closed(group, block, moved);
    if (idle) set_idle(*unit, group, l, true);
  }
}

void Tables::leave_closed(Sequence& sequence, Moved& moved) {
  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    for (std::uint32_t l = 0; l < geometry_.groups[g].lanes; ++l) {
      PagedList<Row>& rows = lane(sequence, {g, l}).rows;
      for (std::uint32_t i = 0; i < rows.size(); ++i) leave_closed(g, rows[i].block, moved);
    }
  }
}

}  // namespace quire
