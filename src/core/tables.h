// The tables: which block holds which entry of which sequence.
//
//   sequence -> per layer group: a list of extents      (shared with forks, counted)
//            -> per lane: nothing while dense, then a table of rows {block, base, live bits}
//
// Everything is allocated from the pool.  Growth is reserve-then-commit: grow() takes all that a
// step needs or changes nothing; publish() makes the rows part of their sequences; retract() gives
// all of it back.  An eviction never fails for want of memory: for every dense lane of a
// full-attention layer the nodes of its future table are set aside (NodeStore::headroom).
//
// A sequence evicts from its own view.  A block whose entries are all dead is released at once when
// its extent belongs to this sequence alone; in a shared extent it stays until the extent has one
// owner, and is released in that moment (drop, fork's copy-on-write, or another eviction).
//
// A repack (vToken, arXiv 2608.13263) moves the entries of neighbouring sparse blocks of a lane
// into fewer blocks, packs, in three calls: plan_moves() takes the packs and lists the moves;
// whoever copies reads only the old blocks' live slots and writes only packs, which nobody reads
// yet; and install_moves() swaps the rows of the lane, in one go, for those moves whose entries are
// still alive.  Between the first and the last the lane is read, appended to and evicted from as
// ever.
//
// The prefix index is one more owner of an extent: what sequences of a text have computed stays for
// the next.  What it alone holds is idle (Pool::set_idle), and makes way whenever rows need room.
//
// One thread at a time; const members may be called by many threads.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/demand.h"
#include "core/geometry.h"
#include "core/moves.h"
#include "core/node_store.h"
#include "core/paged_list.h"
#include "core/pool.h"
#include "core/prefix_index.h"
#include "core/repack.h"
#include "core/sequence.h"

namespace quire {

// Rows of one sequence in a step.
struct Growth {
  Sequence* sequence;
  std::uint32_t rows;
  std::uint32_t window_rows;     // of those, Tap::kLastRows
  bool answer = false;           // rows of an answer
  std::uint32_t query_rows = 0;  // of those, added to the statistics of queries
  std::uint32_t gate_rows = 0;   // of those, the last whose queries are kept
};

struct SequenceBytes {
  std::size_t own = 0;     // blocks of unshared extents, tables, taps
  std::size_t shared = 0;  // blocks of shared extents
};

class Tables {
 public:
  // Registers the geometry's formats with the pool.  REQUIRES: at most Pool::kFormatsMax different
  // block sizes; the pool is empty and outlives the tables.
  Tables(Pool& pool, Geometry geometry, Reclaim reclaim = Reclaim::kRepack,
         PrefixNaming naming = {});
  ~Tables();
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  const Geometry& geometry() const { return geometry_; }
  const Pool& pool() const { return pool_; }

  // --- sequences (tables.cc, tables_fork.cc) ---
  Sequence* start(const Needs& needs);  // null: no room, and nothing changed
  Sequence* fork(const Sequence& parent);
  void drop(Sequence& sequence);
  Sequence* find(SequenceId id) const;  // null: dropped or never there
  std::uint32_t sequence_count() const { return sequence_count_; }

  // --- the prefix cache (tables_prefix.cc, tables_reuse.cc): quire/cache.h has the contracts ---
  PrefixMatch match_prefix(const PrefixText& text, const Needs& needs) const;
  // Null: no room, and nothing changed.
  Sequence* start_with_prefix(const Needs& needs, const PrefixText& text, std::uint32_t most,
                              PrefixEnd& end);
  std::uint32_t index(Sequence& sequence, const PrefixText& text);
  void forget(const PrefixText& text);
  void forget();
  std::uint32_t expect(const PrefixText& text, bool expected);
  PrefixStats prefix_stats() const;
  // Evicts the part of a unit that is used least, among those used like `most` or less.  False:
  // there is none.
  bool evict_prefix(PartUse most);
  // --- roles of a sequence's tokens (tables_roles.cc) ---
  // False: no room, and nothing changed.
  bool set_roles(Sequence& sequence, Position first, std::span<const Role> roles);
  // All of them, those up to the sequence's length that nobody named as prose.
  void copy_roles(const Sequence& sequence, std::vector<Role>& roles) const;

  // Whether queries are kept for a gate; those there are given up.
  void keep_queries(Sequence& sequence, bool on);

  // --- a step (tables_step.cc) ---
  // False: no room, and nothing changed.  REQUIRES: different sequences, rows > 0, no step running.
  bool grow(std::span<const Growth> step);
  void publish();
  void retract();
  bool growing() const { return !step_.empty(); }

  // --- a lane (rows of the running step included) ---
  std::uint32_t live(const Sequence& sequence, LanePlace at) const;
  Ordinal first_ordinal(const Sequence& sequence, LanePlace at) const;
  std::uint32_t block_count(const Sequence& sequence, LanePlace at) const {
    const Lane& table = lane(sequence, at);
    return table.own != 0 ? table.rows.size() : sequence.groups()[at.group].extents.size();
  }
  // The lane's block of an extent that the running step writes to.
  BlockId block_at(const Sequence& sequence, LanePlace at, std::uint32_t ordinal) const;
  const Lane& lane(const Sequence& sequence, LanePlace at) const {
    return sequence.lanes(geometry_)[geometry_.groups[at.group].first_lane + at.lane];
  }
  Lane& lane(Sequence& sequence, LanePlace at) const {
    return sequence.lanes(geometry_)[geometry_.groups[at.group].first_lane + at.lane];
  }
  // Sums per entry: one over the query heads, then, with Needs::per_head, one of each.
  static std::uint32_t tap_sums(const Needs& needs, std::uint32_t query_heads) {
    return needs.tap == Tap::kLastRows && needs.per_head ? 1 + query_heads : 1;
  }
  std::uint32_t tap_sums(const Sequence& sequence, LanePlace at) const {
    return tap_sums(sequence.needs, geometry_.groups[at.group].query_heads[at.lane]);
  }
  // Numbers per entry: the sums, then, with Needs::state, the bits of a float.
  static std::uint32_t tap_stride(const Needs& needs, std::uint32_t query_heads) {
    return tap_sums(needs, query_heads) + (needs.state ? 1 : 0);
  }
  std::uint32_t tap_stride(const Sequence& sequence, LanePlace at) const {
    return tap_stride(sequence.needs, geometry_.groups[at.group].query_heads[at.lane]);
  }
  // Calls f(BlockId, live bits, base position, ordinal of the first live entry) for the blocks that
  // hold positions in [begin, end), ascending.  The first block may reach below `begin`; bits at
  // or above `end` are cleared.  A pack's base is given as 0, which every row that may read it is
  // behind; the positions of its entries are what for_each_entry() is for.
  // REQUIRES: of a lane with packs, begin = 0 and end >= the sequence's length.
  template <typename F>
  void for_each_block(const Sequence& sequence, LanePlace at, Position begin, Position end,
                      F f) const;
  // Calls f(position) for every live entry, ascending.  REQUIRES: no step running.
  template <typename F>
  void for_each_entry(const Sequence& sequence, LanePlace at, F f) const;

  // --- eviction (tables_evict.cc) ---
  // Keeps the entries of a lane with these ranks (ascending, 0 = its first entry now) and drops the
  // others, tap sums with them.  False: no room for the table of a window layer's lane, and nothing
  // changed.  After the last lane of a sequence call settle().
  bool retain(Sequence& sequence, LanePlace at, std::span<const Ordinal> kept);
  void settle(Sequence& sequence);  // releases extents without a live entry
  // Every tap sum becomes 0; states stay.
  void clear_sums(Sequence& sequence);

  // --- repacking (tables_repack.cc) ---
  // Plans moves until `copy_bytes` of K and V are to be copied, and sets packs aside for the next.
  // REQUIRES: no step running.
  MovesReport plan_moves(const RepackOptions& options, std::size_t copy_bytes);
  // Likewise until blocks of `free_bytes` are to be freed, of any sequence with holes; nothing
  // where all together would not free them.
  MovesReport plan_room(std::size_t free_bytes);
  // Gives all but a few of the packs set aside back to the pool; returns their bytes.
  std::size_t give_headroom();
  // Empties slabs, at most `count`, by moving whole blocks beside others (tables_gather.cc): what
  // is free in slabs of blocks serves arrays and other blocks again.  Nothing else changes.  None
  // while plans are in flight.  Returns how many.  REQUIRES: no step running.
  std::size_t empty_slabs(std::size_t count);
  // The plans in flight.  Another thread may copy their entries while a step is running, and only
  // then: every other call may change them.
  std::span<MovePlan> moves() { return moves_.all(); }
  // Installs the plans that are copied.  REQUIRES: no step running.
  MovesReport install_moves();
  std::size_t headroom_bytes() const;  // packs set aside

  // --- sizes (tables_size.cc) ---
  // Slabs the pool must still give for a step, beside Pool::free_slabs(idle), once all is gone that
  // only the prefix index holds, or while it is there; never too few.  Exact but for the packing of
  // arrays in slabs and for tap sums not switched on yet.
  SlabNeed slabs_needed(std::span<const Growth> step, Idle idle = Idle::kGone) const {
    return slabs_needed(step, kOneStep, idle);
  }
  // The most that rows read in steps of at most `step_rows` need at once: what windows pass on the
  // way is free again.
  SlabNeed slabs_needed(std::span<const Growth> growth, std::uint32_t step_rows,
                        Idle idle = Idle::kGone) const;
  // Tokens of one fresh sequence that an empty pool holds, in steps of at most `step_rows`.
  std::uint32_t tokens_that_fit(const Needs& needs, std::uint32_t step_rows) const;
  SequenceBytes bytes(const Sequence& sequence) const;
  std::uint64_t blocks(const Sequence& sequence) const;  // held or read, over all lanes
  // 1 - mean share of live slots over the blocks of full-attention lanes, but for those filling.
  double waste(const Sequence& sequence) const;

  void check_invariants() const;  // tables_invariants.cc

 private:
  struct Growing {
    Sequence* sequence;
    std::size_t replaced;  // index of its first in replaced_, one per group
  };

  std::uint64_t bits_below(Position base, Position end) const;  // slots of [base, end)
  Pack& pack_of(const Row& row) const {
    return *reinterpret_cast<Pack*>(pool_.address(row.pack()));
  }
  Position first_position(const Row& row) const {
    return row.packed() ? pack_of(row).base : row.place;
  }
  void unreference_pack(const Row& row);
  void release_pack(const Row& row);
  bool acquire_blocks(const LayerGroup& group, std::span<BlockId> out);
  Extent* make_extent(const LayerGroup& group, std::uint32_t ordinal);
  void free_extent(const LayerGroup& group, Extent* extent);
  Extent& checked(const ExtentRef& ref) const;
  void unreference(std::uint32_t group, const ExtentRef& ref);
  void reclaim(std::uint32_t group, Extent& extent);
  void release_block(Extent& extent, std::uint32_t lane);
  void release_dead_blocks(const Sequence& sequence, std::uint32_t group, Extent& extent);
  // Rank in the list of the first extent at or above `ordinal`.
  static std::uint32_t lower_bound(const PagedList<ExtentRef>& list, std::uint32_t ordinal);
  std::uint32_t lower_bound(const PagedList<Row>& rows, Position position) const;
  bool has_row(const Lane& lane, Position base) const;  // of an extent's block
  Extent& extent_of(const Sequence& sequence, LanePlace at, const Row& row) const;
  bool shares(const Sequence& sequence) const;
  void erase(Sequence& sequence);  // with what only it holds
  void release_lists(Sequence& sequence);
  void release_dead_row(Sequence& sequence, LanePlace at, const Row& row);

  bool make_table(Sequence& sequence, LanePlace at, std::span<const Ordinal> kept);
  void filter_rows(Sequence& sequence, LanePlace at, std::span<const Ordinal> kept);
  void filter_taps(Sequence& sequence, LanePlace at, std::span<const Ordinal> kept);
  // A row of a lane; of a dense one, what its table would say.
  Row row_at(const Sequence& sequence, LanePlace at, std::uint32_t i) const;

  bool grow_sequence(const Growth& growth, std::span<ExtentRef> replaced);
  bool grow_group(Sequence& sequence, std::uint32_t group, ExtentRef& replaced);
  bool grow_open_extent(Sequence& sequence, std::uint32_t group, ExtentRef& replaced);
  bool push_extent(Sequence& sequence, std::uint32_t group, std::uint32_t ordinal);
  bool grow_rows(Sequence& sequence, LanePlace at);
  bool grow_taps(Sequence& sequence);
  bool grow_queries(Sequence& sequence);
  bool grow_gate(Sequence& sequence);
  std::size_t gate_nodes(const Needs& needs) const;
  void publish_gate(Sequence& sequence);
  void renew_window(Sequence& sequence);
  void retract_sequence(Sequence& sequence, std::span<ExtentRef> replaced);
  void retract_rows(Sequence& sequence, LanePlace at, const ExtentRef& replaced);
  void retract_taps(Sequence& sequence);
  void drop_taps(Sequence& sequence);  // Tap::kLastRows: until rows of a window come
  void retract_group(Sequence& sequence, std::uint32_t group, ExtentRef& replaced);
  void pass_window(Sequence& sequence, std::uint32_t group);

  // What of a text is cached.
  struct PrefixFound {
    std::vector<Unit*> units;  // [whole unit of the text] or null
    // The unit that begins most like what follows the last one of use, and how much of it.
    Unit* tail = nullptr;
    std::uint32_t tail_at = 0, tail_tokens = 0;
    std::uint32_t usable = 0;  // tokens
    PrefixEnd end = PrefixEnd::kDisabled;
  };
  PrefixFound find_prefix(const PrefixText& text, const Needs& needs, std::uint32_t most) const;
  void find_tail(const PrefixText& text, std::span<const PrefixKeys::Unit> keys,
                 PrefixFound& found) const;
  bool readable(const PrefixFound& found, std::uint32_t tokens) const;
  // The first of the units that a group still sees behind so many tokens.
  std::uint32_t first_seen(std::uint32_t group, std::uint32_t tokens) const;
  // A share in what was found; the references count.
  struct PrefixShare {
    std::uint32_t group;
    ExtentRef ref;
  };
  std::vector<PrefixShare> take_prefix(const PrefixFound& found);
  void add_prefix(const Needs& needs, std::span<const PrefixShare> shares, std::uint32_t tokens,
                  Demand& demand) const;
  bool give_prefix(Sequence& sequence, std::span<const PrefixShare> shares, std::uint32_t tokens);
  const ExtentRef* extent_at(const Sequence& sequence, std::uint32_t group,
                             std::uint32_t ordinal) const;
  Unit* enter(const Sequence& sequence, const UnitName& name, std::uint64_t fingerprint,
              std::uint32_t ordinal, Unit* unit);
  void drop_part(Part& part);
  void drop_unit(Unit& unit);
  void drop_extents(Unit& unit, std::uint32_t which);
  void claim_blocks(const Sequence& sequence, LanePlace at);
  void reference(std::uint32_t group, const ExtentRef& ref);
  // After a change of its owners, or of what the last of them still reads.
  void follow_owners(std::uint32_t group, Extent& extent);
  void set_idle(Unit& unit, std::uint32_t group, std::uint32_t lane, bool idle);
  void mark_dead(std::uint32_t group, Extent& extent, std::uint32_t lane);
  PartUse use_of(const Unit& unit, std::uint32_t which) const;
  void follow_use(Unit& unit, std::uint32_t which);
  // Its only sequence beside the index; null where it has none or several.
  const Sequence* owner_of(std::uint32_t group, const Extent& extent) const;
  std::uint32_t idle_blocks(std::uint32_t group, const Extent& extent) const;
  // Evicts units until what add(Demand&) adds fits; none if it would not even without all of them.
  template <typename Add>
  SlabNeed make_room(Add add);
  void add_start(Demand& demand) const;
  void add_fork(const Sequence& parent, Demand& demand) const;
  void add_growth(std::span<const Growth> growth, std::uint32_t step_rows, Demand& demand) const;
  void check_prefix(const Unit& unit) const;

  static constexpr std::uint32_t kOneStep = ~0u;
  void add_group(const Growth& growth, std::uint32_t group, std::uint32_t step_rows,
                 Demand& demand) const;
  std::uint32_t fresh_extents(const Growth& growth, std::uint32_t group, std::uint32_t step_rows,
                              Idle idle) const;
  void check_pack(const Row& row, Position end) const;
  void check_table(const Sequence& sequence, LanePlace at) const;
  void check_group(const Sequence& sequence, std::uint32_t group) const;

  // Packs set aside, of one layer group: a list through the blocks' first bytes.
  struct Spares {
    Row first{};
    std::size_t count = 0;
  };
  struct Candidate {
    Sequence* sequence;
    LanePlace at;
    std::uint32_t gain;  // blocks, at most
  };
  void push_spare(std::uint32_t group, const Row& pack);
  Row pop_spare(std::uint32_t group);  // REQUIRES: there is one
  // Arrays of packs set aside, likewise.
  struct SpareArrays {
    std::byte* first = nullptr;
    std::size_t count = 0, wanted = 0;

    void push(std::byte* array) {
      std::memcpy(array, &first, sizeof(std::byte*));
      first = array;
      ++count;
    }
    std::byte* pop() {
      std::byte* array = first;
      std::memcpy(&first, array, sizeof(std::byte*));
      --count;
      return array;
    }
  };
  std::byte* acquire_pack_array();
  void release_pack_array(std::byte* array);
  void set_spare_arrays(std::size_t count);
  bool acquire_pack(std::uint32_t group, Row& pack);
  bool acquire_pack_evicting(std::uint32_t group, Row& pack);
  bool take_pack(std::uint32_t group, Row& pack);
  void return_pack(std::uint32_t group, const Row& pack);
  void set_spares(std::uint32_t group, std::size_t count);
  void set_spares_aside(std::size_t bytes);
  // Blocks of a lane that are not still filling, and the live entries in them.
  struct Filled {
    std::uint32_t blocks = 0, entries = 0;
  };
  Filled filled_blocks(const Sequence& sequence, LanePlace at) const;
  void add_candidates(Sequence& sequence, bool sparse);
  void looked_at(Sequence& sequence, Lane& table);
  template <typename More>
  MovesReport plan_candidates(double fullness, More more);
  // False: there is no room for the packs.
  bool plan_lane(const Candidate& lane, double fullness, MovesReport& planned);
  bool plan_runs(LanePlace at, double fullness, MovesReport& planned);
  bool plan_run(LanePlace at, const RepackRun& run, MovesReport& planned);
  bool add_source(MovePlan& plan, const Row& source);
  bool find_views(Sequence& sequence, LanePlace at);
  void find_fill(const Sequence& sequence, LanePlace at);
  Fill fill_of(const Sequence& sequence, LanePlace at, std::uint32_t index) const;
  void live_now(const MovePlan& plan, const Sequence& sequence,
                std::vector<std::uint64_t>& live) const;
  void follow(MovePlan& plan);
  void follow_eviction(const Sequence& sequence, LanePlace at);
  void leave_moves(const Sequence& sequence);
  bool installable(const MovePlan& plan) const;
  bool holds(const Sequence& sequence, LanePlace at, const Row& source) const;
  std::size_t install(const MovePlan& plan);
  void install_view(const MovePlan& plan, Sequence& sequence);
  void end_plan(const MovePlan& plan);
  void mark_sparse(Sequence& sequence, LanePlace at);
  void mark_sparse(Sequence& sequence);
  using Moved = std::unordered_map<BlockId, BlockId>;
  void leave_closed(std::uint32_t group, BlockId& block, Moved& moved);
  void leave_closed(std::uint32_t group, Extent& extent, Moved& moved);
  void leave_closed(Sequence& sequence, Moved& moved);

  std::size_t headroom_of(const Sequence& sequence) const;
  bool settle_headroom();

  Pool& pool_;
  Geometry geometry_;
  const Reclaim reclaim_;
  NodeStore nodes_;
  PrefixIndex index_;
  PagedList<Sequence*> slots_;  // by the low half of a SequenceId; null: free
  std::uint32_t sequence_count_ = 0;
  std::uint32_t next_sequence_ = 0, next_extent_ = 0;  // generations
  BlockPlacing placing_ = BlockPlacing::kSpread;
  std::vector<Growing> step_;
  std::vector<ExtentRef> replaced_;  // open extents that the step replaced by copies

  Moves moves_;
  std::vector<Spares> spares_;  // [group]
  SpareArrays spare_arrays_;
  // Scratch of the planner: the sequences that share a lane's blocks, how full the blocks are, and
  // what lives of a plan's sources.
  RepackPlanner planner_;
  std::vector<Candidate> candidates_;
  std::vector<Sequence*> views_;
  std::vector<Fill> fill_;
  std::vector<std::uint64_t> live_;
  std::vector<std::size_t> freed_;  // [group] blocks, by the plans being installed
};

template <typename Add>
SlabNeed Tables::make_room(Add add) {
  const auto need = [&](Idle idle) {
    Demand demand(pool_, geometry_, idle);
    add(demand);
    return demand.need();
  };
  SlabNeed now = need(Idle::kThere);
  std::size_t free = pool_.free_slabs(Idle::kThere);
  if (now.slabs <= free || index_.empty()) return now;
  if (need(Idle::kGone).slabs > pool_.free_slabs(Idle::kGone)) return now;
  while (now.slabs > free) {
    // Asking costs more than evicting: once for as many blocks as are missing.
    const std::size_t enough = (now.slabs - free) * pool_.slab_bytes();
    const std::size_t before = pool_.bytes().blocks;
    do {
      if (!evict_prefix(PartUse::kRead)) return now;
    } while (before - pool_.bytes().blocks < enough &&
             index_.victim(PartUse::kExpected) != nullptr);
    now = need(Idle::kThere);
    free = pool_.free_slabs(Idle::kThere);
  }
  return now;
}

template <typename F>
void Tables::for_each_block(const Sequence& sequence, LanePlace at, Position begin, Position end,
                            F f) const {
  const std::uint32_t block_tokens = geometry_.block_tokens;
  const Lane& table = lane(sequence, at);
  if (table.own != 0) {
    Ordinal ordinal = table.first;
    table.rows.for_each_run(0, table.rows.size(),
                            [&](std::uint32_t, const Row* row, std::uint32_t count) {
                              for (; count > 0; --count, ++row) {
                                const Ordinal first = ordinal;
                                ordinal += static_cast<std::uint32_t>(std::popcount(row->live));
                                if (row->packed()) {
                                  f(row->block, row->live, Position{0}, first);
                                  continue;
                                }
                                const Position base = row->place;
                                if (base >= end || base + block_tokens <= begin) continue;
                                const std::uint64_t live = row->live & bits_below(base, end);
                                if (live != 0) f(row->block, live, base, first);
                              }
                            });
    return;
  }
  const PagedList<ExtentRef>& list = sequence.groups()[at.group].extents;
  if (list.empty() || begin >= end) return;
  const std::uint32_t first = list[0].ordinal;
  const std::uint32_t from = begin / block_tokens > first ? begin / block_tokens - first : 0;
  const std::uint32_t stop = (end + block_tokens - 1) / block_tokens;
  const std::uint32_t to = std::min(list.size(), stop > first ? stop - first : 0);
  if (from >= to) return;
  list.for_each_run(from, to, [&](std::uint32_t, const ExtentRef* ref, std::uint32_t count) {
    for (; count > 0; --count, ++ref) {
      const Position base = ref->ordinal * block_tokens;
      f(ref->extent->blocks()[at.lane], bits_below(base, end), base, base);
    }
  });
}

template <typename F>
void Tables::for_each_entry(const Sequence& sequence, LanePlace at, F f) const {
  const Lane& table = lane(sequence, at);
  if (table.own == 0) {
    const Position first = first_ordinal(sequence, at), end = first + live(sequence, at);
    for (Position p = first; p < end; ++p) f(p);
    return;
  }
  table.rows.for_each_run(
      0, table.rows.size(), [&](std::uint32_t, const Row* row, std::uint32_t count) {
        for (; count > 0; --count, ++row) {
          const Pack* pack = row->packed() ? &pack_of(*row) : nullptr;
          if (pack == nullptr && (row->live & (row->live + 1)) == 0) {  // no hole
            const Position end = row->place + static_cast<Position>(std::popcount(row->live));
            for (Position p = row->place; p < end; ++p) f(p);
            continue;
          }
          for (std::uint64_t live = row->live; live != 0; live &= live - 1) {
            const auto slot = static_cast<std::uint32_t>(std::countr_zero(live));
            f(pack != nullptr ? pack->base + pack->step()[slot] : row->place + slot);
          }
        }
      });
}

}  // namespace quire
