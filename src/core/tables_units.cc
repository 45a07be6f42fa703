// Prefix units as bytes: out of the pool, to be kept elsewhere, and back into it.
//
// A unit's bytes are the blocks of all lanes, group by group, as they lie in the pool; of a window
// group only where a sequence behind the whole text sees it.  So how many they are depends on the
// unit's place in its text and on the geometry alone.
#include <algorithm>
#include <cstring>

#include "core/tables.h"
#include "quire/check.h"

namespace quire {

std::uint32_t Tables::savable_units(const PrefixText& text) const {
  PrefixFound found = find_prefix(text, {}, ~0u);
  found.tail = nullptr;  // whole units alone
  auto count = static_cast<std::uint32_t>(found.units.size());
  if (has_full_group()) {
    const auto absent = std::ranges::find(found.units, static_cast<Unit*>(nullptr));
    count = static_cast<std::uint32_t>(absent - found.units.begin());
  }
  while (count > 0 && !readable(found, count * geometry_.block_tokens)) --count;
  return count;
}

std::size_t Tables::unit_bytes(std::uint32_t units, std::uint32_t unit) const {
  std::size_t bytes = 0;
  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    if (keeps(g, units, unit)) bytes += extent_bytes(g);
  }
  return bytes;
}

bool Tables::save_units(const PrefixText& text, std::uint32_t begin, std::uint32_t end,
                        std::byte* to) const {
  PrefixKeys scratch;
  const std::span<const PrefixKeys::Unit> keys = index_.keys_of(text, scratch);
  const auto units = static_cast<std::uint32_t>(keys.size() - 1);
  for (std::uint32_t i = begin; i < end; ++i) {
    const Unit* unit = index_.find(index_.name(text, keys, i));
    for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
      if (!keeps(g, units, i)) continue;
      const Extent* extent = unit != nullptr ? index_.extent(*unit, g).extent : nullptr;
      if (extent == nullptr) return false;
      const LayerGroup& group = geometry_.groups[g];
      for (std::uint32_t l = 0; l < group.lanes; ++l, to += group.block_bytes) {
        std::memcpy(to, pool_.address(extent->blocks()[l]), group.block_bytes);
      }
    }
  }
  return true;
}

std::uint32_t Tables::load_units(const PrefixText& text, std::uint32_t begin, std::uint32_t end,
                                 const std::byte* from) {
  QUIRE_CHECK(!growing() && index_.enabled());
  index_.tick();
  PrefixKeys scratch;
  const std::span<const PrefixKeys::Unit> keys = index_.keys_of(text, scratch);
  const auto units = static_cast<std::uint32_t>(keys.size() - 1);
  for (std::uint32_t i = begin; i < end; ++i) {
    const std::size_t bytes = unit_bytes(units, i);
    if (bytes > 0 &&
        !load_unit(index_.name(text, keys, i), keys[i + 1].fingerprint, i, units, from))
      return i - begin;
    from += bytes;
  }
  return end - begin;
}

// All of it, or nothing changed but that others made way.
bool Tables::load_unit(const UnitName& name, std::uint64_t fingerprint, std::uint32_t ordinal,
                       std::uint32_t units, const std::byte* from) {
  Unit* unit = index_.find(name);
  const bool fresh = unit == nullptr;
  while (unit == nullptr && (unit = index_.make(name, fingerprint, ordinal)) == nullptr) {
    if (!evict_prefix(PartUse::kUnused)) return false;
  }
  ++unit->expected;  // so it does not make way for itself
  for (Part& part : unit->parts) {
    follow_use(*unit, part.which);
    index_.touch(part);
  }
  bool room = true;
  for (std::uint32_t g = 0; g < geometry_.groups.size() && room; ++g) {
    if (!keeps(g, units, ordinal)) continue;
    if (index_.extent(*unit, g).extent == nullptr) room = load_extent(*unit, g, from);
    from += extent_bytes(g);
  }
  if (room) return true;
  --unit->expected;
  if (fresh) {
    drop_unit(*unit);
  } else {
    for (const Part& part : unit->parts) follow_use(*unit, part.which);
  }
  return false;
}

bool Tables::load_extent(Unit& unit, std::uint32_t group, const std::byte* from) {
  const LayerGroup& shape = geometry_.groups[group];
  Extent* extent = nullptr;
  while ((extent = make_extent(shape, unit.depth)) == nullptr) {
    if (!evict_prefix(PartUse::kUnused)) return false;
  }
  for (std::uint32_t l = 0; l < shape.lanes; ++l, from += shape.block_bytes) {
    std::memcpy(pool_.address(extent->blocks()[l]), from, shape.block_bytes);
  }
  index_.extent(unit, group) = {extent, extent->generation, 0};
  extent->unit = index_.handle(unit);
  follow_owners(group, *extent);
  return true;
}

}  // namespace quire
