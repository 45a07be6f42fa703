// The index of prefix units: which there are, by what they are the K and V of, and who goes first.
//
// A unit is known by its parent (the chain digest over all tokens before it) and its own tokens,
// which are kept and compared, in one ordered set.  So the children of a parent are neighbours, the
// one that begins like a given text is found next to where that would be, and a unit that is absent
// leaves those behind it where they are: their parents are digests, not records.
//
// A unit's record is one array of the pool; its links are in it, so entering and erasing others
// never allocates.  Records count as idle (Pool::set_idle): they give way to rows.  What the index
// knows of extents is a pointer for each layer group; references, blocks and sequences are the
// tables' (tables_prefix.cc).
//
// Outside the pool: kEvictedSize words that tell what was evicted from what never was there.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/geometry.h"
#include "core/residency.h"
#include "core/sequence.h"
#include "core/tree.h"
#include "quire/prefix.h"

namespace quire {

// How texts become digests.  Null: there is no index.
struct PrefixNaming {
  std::function<Digest(std::span<const std::byte>)> hash{};
  Digest root{};  // of the model and its layout
};

// What holds a part of a unit.  In this order they are evicted.
enum class PartUse : std::uint32_t {
  kAbsent,
  kUnused,    // evicting it frees blocks
  kExpected,  // likewise, and somebody waits for it
  kRead,      // by sequences, all of it: evicting it frees no block
};

struct Unit;

// A unit's extents in the groups that full-attention layers make up, or in the window layers'
// groups: what those no longer see of a text may go before the rest.
struct Part : Resident {
  Unit* unit;
  std::uint32_t which;
  PartUse use;
};

struct UnitExtent {
  Extent* extent;
  std::uint32_t generation;
  std::uint32_t idle;  // 1: the extent's array
};

// UnitExtent[groups], a bit for every lane (a group's first in a word of its own; 1: its block is
// idle) and Token[block_tokens] follow the record.
struct Unit {
  static constexpr std::uint32_t kBase = 0, kWindow = 1, kParts = 2;

  Digest parent;
  std::uint64_t parent_fingerprint, fingerprint;
  TreeLinks<Unit> links;
  const Token* token;         // [token_count], behind the record
  std::uint32_t token_count;  // block_tokens
  std::uint32_t depth;        // units before it
  std::uint64_t expected;     // by so many
  std::array<Part, kParts> parts;

  std::span<const Token> tokens() const { return {token, token_count}; }
  bool has(std::uint32_t which) const { return parts[which].use != PartUse::kAbsent; }
};
static_assert(sizeof(Unit) % alignof(UnitExtent) == 0);

// Of the unit behind `parent`, whose tokens may be fewer than a unit's.
struct UnitName {
  const PrefixKeys::Unit& parent;
  std::span<const Token> tokens;
};

class PrefixIndex {
 public:
  static constexpr std::size_t kEvictedSize = 4096;

  PrefixIndex(Pool& pool, const Geometry& geometry, PrefixNaming naming);

  bool enabled() const { return naming_.hash != nullptr; }
  bool empty() const { return units_.empty(); }

  // [0] what the salt makes of the root, then one for each whole unit of the text: kept in its
  // keys, or in `scratch`.
  std::span<const PrefixKeys::Unit> keys_of(const PrefixText& text, PrefixKeys& scratch) const;
  UnitName name(const PrefixText& text, std::span<const PrefixKeys::Unit> keys,
                std::uint32_t i) const;

  Unit* find(const UnitName& name) const;
  // The unit with that parent whose tokens begin most like the name's, and how many of them do.
  // Null: the parent has none.
  Unit* nearest(const UnitName& name, std::uint32_t& common) const;
  Unit* any() const { return units_.first(); }
  template <typename F>
  void for_each(F f) const {
    units_.for_each(f);
  }

  // A unit without parts.  Null: the budget has no room.
  Unit* make(const UnitName& name, std::uint64_t fingerprint, std::uint32_t depth);
  void erase(Unit& unit);  // REQUIRES: no part
  void set_use(Part& part, PartUse use);
  void touch(Part& part);
  Part* victim(PartUse most) const;  // the next to go, of those used like `most` or less
  void tick() { ++now_; }            // what is used from now on was used later

  // Whether a unit with that fingerprint was evicted and is not there.  May forget.
  bool was_evicted(std::uint64_t fingerprint) const;
  void note_evicted(const Unit& unit);

  // --- a record ---
  std::uint32_t part_of(std::uint32_t group) const {
    return geometry_.groups[group].window != 0 && has_full_ ? Unit::kWindow : Unit::kBase;
  }
  UnitExtent& extent(Unit& unit, std::uint32_t group) const {
    return reinterpret_cast<UnitExtent*>(&unit + 1)[group];
  }
  const UnitExtent& extent(const Unit& unit, std::uint32_t group) const {
    return reinterpret_cast<const UnitExtent*>(&unit + 1)[group];
  }
  std::span<std::uint64_t> idle(Unit& unit, std::uint32_t group) const;
  std::span<const std::uint64_t> idle(const Unit& unit, std::uint32_t group) const {
    return idle(const_cast<Unit&>(unit), group);
  }
  std::size_t record_bytes() const { return record_bytes_; }
  // Extent::unit of an extent that is the unit's, and back.
  std::uint32_t handle(const Unit& unit) const;
  Unit& unit_of(std::uint32_t handle) const;

  PrefixStats stats{};  // counts; units and bytes are others'
  std::uint64_t size() const { return size_; }
  void check_invariants() const;  // order, uses

 private:
  struct NameOrder {
    bool operator()(const Unit& a, const Unit& b) const;
  };

  Digest key_of(const PrefixKeys::Unit& parent, std::span<const Token> tokens) const;

  Pool& pool_;
  const Geometry& geometry_;
  const PrefixNaming naming_;
  bool has_full_ = false;
  std::size_t words_ = 0;  // of idle bits
  std::size_t record_bytes_ = 0;
  Tree<Unit, &Unit::links, NameOrder> units_;
  std::array<std::unique_ptr<Residency>, 3> orders_;  // by PartUse, from kUnused on
  std::vector<std::uint64_t> evicted_;                // fingerprints, by their low bits
  std::uint64_t size_ = 0, made_ = 0, now_ = 1;
};

}  // namespace quire
