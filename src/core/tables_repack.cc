// Repacking: entries of sparse blocks move together, and their blocks are free.
#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

#include "core/tables.h"
#include "quire/check.h"

namespace quire {
namespace {

constexpr std::size_t kSparesMin = 8;      // packs set aside, of a layer group
constexpr std::size_t kSparesShare = 100;  // or one in so many blocks of the pool
constexpr std::uint32_t kHandleMax = Row::kPacked - 1;

// [target] the bits of `live` [source] where a plan takes them.
void target_bits(const MovePlan& plan, std::span<const std::uint64_t> live,
                 std::vector<std::uint64_t>& bits) {
  bits.assign(plan.targets.size(), 0);
  plan.for_each_move([&](std::uint32_t s, std::uint32_t from, std::uint32_t t, std::uint32_t to) {
    bits[t] |= (live[s] >> from & 1) << to;
  });
}

std::size_t filled(std::span<const std::uint64_t> bits) {
  return bits.size() - static_cast<std::size_t>(std::ranges::count(bits, std::uint64_t{0}));
}

bool is_view(const MovePlan& plan, const Sequence& sequence) {
  return std::ranges::find(plan.views, sequence.id) != plan.views.end();
}

}  // namespace

// --- packs ---

std::byte* Tables::acquire_pack_array() {
  std::byte* array = pool_.acquire_array(Pack::bytes(geometry_.block_tokens));
  return array != nullptr || spare_arrays_.count == 0 ? array : spare_arrays_.pop();
}

void Tables::release_pack_array(std::byte* array) {
  if (spare_arrays_.count >= spare_arrays_.wanted) return pool_.release_array(array);
  spare_arrays_.push(array);
}

bool Tables::acquire_pack(std::uint32_t group, Row& pack) {
  std::byte* memory = acquire_pack_array();
  if (memory == nullptr) return false;
  const auto handle = static_cast<std::size_t>(memory - pool_.address(BlockId{0})) / kBlockGrain;
  const BlockId block =
      handle <= kHandleMax ? pool_.acquire(geometry_.groups[group].format) : kNoBlock;
  if (block == kNoBlock) {
    release_pack_array(memory);
    return false;
  }
  pack = {block, Row::kPacked | static_cast<std::uint32_t>(handle), 0};
  pack_of(pack).references = 0;
  return true;
}

// With what the prefix index does not need more.
bool Tables::acquire_pack_evicting(std::uint32_t group, Row& pack) {
  while (!acquire_pack(group, pack)) {
    if (!evict_prefix(PartUse::kExpected)) return false;
  }
  return true;
}

bool Tables::take_pack(std::uint32_t group, Row& pack) {
  if (acquire_pack_evicting(group, pack)) return true;
  if (spares_[group].count == 0) return false;
  pack = pop_spare(group);
  return true;
}

void Tables::push_spare(std::uint32_t group, const Row& pack) {
  Spares& spares = spares_[group];
  std::memcpy(pool_.address(pack.block), &spares.first, sizeof(Row));
  spares.first = {pack.block, pack.place, 0};
  ++spares.count;
}

Row Tables::pop_spare(std::uint32_t group) {
  Spares& spares = spares_[group];
  const Row pack = spares.first;
  std::memcpy(&spares.first, pool_.address(pack.block), sizeof(Row));
  --spares.count;
  return pack;
}

// Of a plan that did not need it.  The last few are kept: without a pack nothing can move.
void Tables::return_pack(std::uint32_t group, const Row& pack) {
  if (spares_[group].count >= kSparesMin) return release_pack(pack);
  push_spare(group, pack);
}

void Tables::set_spares(std::uint32_t group, std::size_t count) {
  const Spares& spares = spares_[group];
  Row pack;
  while (spares.count < count && acquire_pack_evicting(group, pack)) push_spare(group, pack);
  while (spares.count > count) release_pack(pop_spare(group));
}

// Arrays take whole slabs, which a full pool has none of: it moves blocks to have one, and for that
// it must have freed as many before, into packs that have arrays.
void Tables::set_spare_arrays(std::size_t count) {
  spare_arrays_.wanted = count;
  const std::size_t bytes = Pack::bytes(geometry_.block_tokens);
  while (spare_arrays_.count < count) {
    std::byte* array = pool_.acquire_array(bytes);
    if (array != nullptr) {
      spare_arrays_.push(array);
    } else if (empty_slabs(1) == 0) {
      return;
    }
  }
  while (spare_arrays_.count > count) pool_.release_array(spare_arrays_.pop());
}

void Tables::set_spares_aside(std::size_t bytes) {
  const std::size_t array = Pool::array_bytes(Pack::bytes(geometry_.block_tokens));
  set_spare_arrays(bytes > 0 ? pool_.array_slab_bytes() / 2 / array : 0);
  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    const LayerGroup& group = geometry_.groups[g];
    if (group.window == 0) set_spares(g, bytes / group.block_bytes);
  }
}

std::size_t Tables::headroom_bytes() const {
  const std::size_t array = Pool::array_bytes(Pack::bytes(geometry_.block_tokens));
  std::size_t bytes = 0;
  for (std::size_t g = 0; g < spares_.size(); ++g) {
    bytes += spares_[g].count * (geometry_.groups[g].block_bytes + array);
  }
  return bytes;
}

// --- planning ---

void Tables::mark_sparse(Sequence& sequence, LanePlace at) {
  if (geometry_.groups[at.group].window != 0) return;
  Lane& table = lane(sequence, at);
  sequence.sparse += table.sparse == 0 ? 1 : 0;
  table.sparse = 1;
  sequence.settled = 0;
}

void Tables::mark_sparse(Sequence& sequence) {
  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    for (std::uint32_t l = 0; l < geometry_.groups[g].lanes; ++l) {
      if (lane(sequence, {g, l}).own != 0) mark_sparse(sequence, {g, l});
    }
  }
}

MovesReport Tables::plan_moves(const RepackOptions& options, std::size_t copy_bytes) {
  QUIRE_CHECK(!growing());
  if (reclaim_ != Reclaim::kRepack || sequence_count_ == 0) return {};
  const PoolBytes bytes = pool_.bytes();
  const std::size_t free = bytes.budget - bytes.blocks - bytes.arrays + bytes.idle;
  const std::size_t least = kSparesMin * geometry_.largest_block();
  std::size_t spares = options.headroom_bytes;
  if (spares == 0) spares = std::max(least, bytes.budget / kSparesShare);
  // Never the last of the pool: rows come first.
  set_spares_aside(std::min(spares, std::max(least, headroom_bytes() + free / 2)));

  if (static_cast<double>(free) >
      static_cast<double>(options.watermark) * static_cast<double>(bytes.budget)) {
    return {};
  }
  candidates_.clear();
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    Sequence* sequence = slots_[slot];
    if (sequence == nullptr || sequence->sparse == 0 || sequence->settled != 0) continue;
    if (waste(*sequence) > options.waste) {
      add_candidates(*sequence, true);
    } else {
      sequence->settled = 1;
    }
  }
  return plan_candidates(options.fullness,
                         [&](const MovesReport& planned) { return planned.bytes < copy_bytes; });
}

std::size_t Tables::give_headroom() {
  const std::size_t before = headroom_bytes();
  for (std::uint32_t g = 0; g < spares_.size(); ++g) {
    set_spares(g, std::min(spares_[g].count, kSparesMin));
  }
  return before - headroom_bytes();
}

MovesReport Tables::plan_room(std::size_t free_bytes) {
  QUIRE_CHECK(!growing());
  if (reclaim_ != Reclaim::kRepack) return {};
  candidates_.clear();
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot] != nullptr) add_candidates(*slots_[slot], false);
  }
  std::size_t most = 0;
  for (const Candidate& candidate : candidates_) {
    most += candidate.gain * geometry_.groups[candidate.at.group].block_bytes;
  }
  if (most < free_bytes) return {};
  const std::size_t blocks = free_bytes / geometry_.largest_block() + 1;
  return plan_candidates(1, [&](const MovesReport& planned) { return planned.blocks < blocks; });
}

// Lanes of a sequence that fewer blocks could hold; those evicted from since a repack looked, or
// all.
void Tables::add_candidates(Sequence& sequence, bool sparse) {
  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    if (geometry_.groups[g].window != 0) continue;
    for (std::uint32_t l = 0; l < geometry_.groups[g].lanes; ++l) {
      Lane& table = lane(sequence, {g, l});
      if (table.moving != 0 || (sparse && table.sparse == 0)) continue;
      const Filled filled = filled_blocks(sequence, {g, l});
      const std::uint32_t least =
          (filled.entries + geometry_.block_tokens - 1) / geometry_.block_tokens;
      if (filled.blocks > least) {
        candidates_.push_back({&sequence, {g, l}, filled.blocks - least});
      } else {
        looked_at(sequence, table);
      }
    }
  }
}

void Tables::looked_at(Sequence& sequence, Lane& table) {
  sequence.sparse -= table.sparse;
  table.sparse = 0;
}

// Those with the most to gain first, while `more` and the packs last.
template <typename More>
MovesReport Tables::plan_candidates(double fullness, More more) {
  std::ranges::sort(candidates_, [](const Candidate& a, const Candidate& b) {
    return std::tie(b.gain, a.sequence->slot, a.at.group, a.at.lane) <
           std::tie(a.gain, b.sequence->slot, b.at.group, b.at.lane);
  });
  MovesReport planned;
  for (const Candidate& candidate : candidates_) {
    if (!more(planned)) break;
    // One that a plan of a fork's has taken along meanwhile has its turn another time.
    if (lane(*candidate.sequence, candidate.at).moving != 0) continue;
    if (!plan_lane(candidate, fullness, planned)) break;
  }
  return planned;
}

bool Tables::plan_lane(const Candidate& candidate, double fullness, MovesReport& planned) {
  Sequence& sequence = *candidate.sequence;
  views_.assign(1, &sequence);
  claim_blocks(sequence, candidate.at);
  find_fill(sequence, candidate.at);
  if (!plan_runs(candidate.at, fullness, planned)) return false;
  // Blocks that forks read as well, where all of them have evicted the same.
  if (find_views(sequence, candidate.at)) {
    claim_blocks(sequence, candidate.at);
    find_fill(sequence, candidate.at);
    if (!plan_runs(candidate.at, fullness, planned)) return false;
  }
  looked_at(sequence, lane(sequence, candidate.at));
  return true;
}

void Tables::find_fill(const Sequence& sequence, LanePlace at) {
  const PagedList<Row>& rows = lane(sequence, at).rows;
  fill_.clear();
  for (std::uint32_t i = 0; i < rows.size(); ++i) fill_.push_back(fill_of(sequence, at, i));
}

Fill Tables::fill_of(const Sequence& sequence, LanePlace at, std::uint32_t index) const {
  const PagedList<Row>& own = lane(sequence, at).rows;
  const Row& row = own[index];
  // A view may be shorter, its block still filling, and yet read the same entries of it.
  const auto filling = [&](const Sequence* view) {
    return row.place + geometry_.block_tokens > view->length;
  };
  if (!row.packed() && std::ranges::any_of(views_, filling)) return kFixed;
  const std::uint32_t owners =
      row.packed() ? pack_of(row).references : extent_of(sequence, at, row).references;
  if (owners != views_.size()) return kFixed;
  for (const Sequence* view : views_) {
    if (view == &sequence) continue;
    const PagedList<Row>& rows = lane(*view, at).rows;
    const std::uint32_t i = lower_bound(rows, first_position(row));
    if (i == rows.size() || rows[i].block != row.block || rows[i].live != row.live) return kFixed;
    // A run's blocks are neighbours in all views.
    if (index > 0 && i > 0 && rows[i - 1].block != own[index - 1].block) return kFixed;
  }
  return static_cast<Fill>(std::popcount(row.live));
}

// Fills views_ with the sequences that read the lane's first shared block, if there is one and none
// of them is being repacked.
bool Tables::find_views(Sequence& sequence, LanePlace at) {
  const PagedList<Row>& rows = lane(sequence, at).rows;
  std::uint32_t shared = 0;
  for (; shared < rows.size(); ++shared) {
    const Row& row = rows[shared];
    if (row.packed() ? pack_of(row).references > 1
                     : extent_of(sequence, at, row).shared(Idle::kGone)) {
      break;
    }
  }
  if (shared == rows.size()) return false;
  const Row& row = rows[shared];
  if (lane(sequence, at).moving != 0) return false;
  views_.assign(1, &sequence);  // first: plan_run() reads its rows
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot] == nullptr || slots_[slot] == &sequence) continue;
    const Lane& table = lane(*slots_[slot], at);
    const std::uint32_t i = lower_bound(table.rows, first_position(row));
    if (i == table.rows.size() || table.rows[i].block != row.block) continue;
    if (table.moving != 0) return false;
    views_.push_back(slots_[slot]);
  }
  return views_.size() > 1;
}

bool Tables::plan_runs(LanePlace at, double fullness, MovesReport& planned) {
  for (const RepackRun& run : planner_.runs(fill_, geometry_.block_tokens, fullness)) {
    if (!plan_run(at, run, planned)) return false;
  }
  return true;
}

bool Tables::plan_run(LanePlace at, const RepackRun& run, MovesReport& planned) {
  const PagedList<Row>& rows = lane(*views_[0], at).rows;
  MovePlan& plan = moves_.add();
  plan.at = at;
  plan.first = first_position(rows[run.first]);
  for (const Sequence* view : views_) plan.views.push_back(view->id);
  std::size_t entries = 0;
  bool room = true;
  for (std::uint32_t i = run.first; i < run.first + run.count; ++i) {
    // Out of packs: what has a place already moves, the rest another time.
    if (!(room = add_source(plan, rows[i]))) break;
    entries += static_cast<std::size_t>(std::popcount(rows[i].live));
  }
  if (plan.targets.size() >= plan.sources.size()) {
    for (const Row& target : plan.targets) return_pack(at.group, target);
    moves_.pop();
    return room;
  }
  for (Sequence* view : views_) ++lane(*view, at).moving;
  ++planned.plans;
  planned.entries += entries;
  planned.bytes += geometry_.groups[at.group].block_bytes * entries / geometry_.block_tokens;
  planned.blocks += plan.sources.size() - plan.targets.size();
  return room;
}

// Gives every entry of a source its slot in a pack.  False: there is no pack for them, and nothing
// changed.
bool Tables::add_source(MovePlan& plan, const Row& source) {
  const std::size_t targets = plan.targets.size();
  const std::uint64_t last = targets > 0 ? plan.targets.back().live : 0;
  const Pack* from = source.packed() ? &pack_of(source) : nullptr;
  for (std::uint64_t live = source.live; live != 0; live &= live - 1) {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(live));
    const Position position = from != nullptr ? from->base + from->step()[i] : source.place + i;
    const bool full = plan.targets.empty() ||
                      plan.targets.back().live == bits_below(0, geometry_.block_tokens) ||
                      position - pack_of(plan.targets.back()).base > Pack::kStepMax;
    if (Row pack; full) {
      if (!take_pack(plan.at.group, pack)) {
        for (; plan.targets.size() > targets; plan.targets.pop_back()) {
          return_pack(plan.at.group, plan.targets.back());
        }
        if (targets > 0) plan.targets.back().live = last;
        return false;
      }
      pack_of(pack).base = position;
      plan.targets.push_back(pack);
    }
    Row& target = plan.targets.back();
    const auto slot = static_cast<std::uint32_t>(std::popcount(target.live));
    pack_of(target).step()[slot] = static_cast<std::uint16_t>(position - pack_of(target).base);
    target.live |= std::uint64_t{1} << slot;
  }
  plan.sources.push_back(source);
  plan.wanted.push_back(source.live);
  return true;
}

// --- while a plan is in flight ---

// Writes what is live now of a plan's sources in one of its views.
void Tables::live_now(const MovePlan& plan, const Sequence& sequence,
                      std::vector<std::uint64_t>& live) const {
  const PagedList<Row>& rows = lane(sequence, plan.at).rows;
  live.assign(plan.sources.size(), 0);
  std::uint32_t i = lower_bound(rows, plan.first);
  for (std::size_t s = 0; s < plan.sources.size() && i < rows.size(); ++s) {
    const Row& row = rows[i];
    if (row.place != plan.sources[s].place) continue;
    QUIRE_CHECK(row.block == plan.sources[s].block && (row.live & ~plan.sources[s].live) == 0);
    live[s] = row.live;
    ++i;
  }
}

void Tables::follow(MovePlan& plan) {
  std::ranges::fill(plan.wanted, 0);
  for (const SequenceId id : plan.views) {
    live_now(plan, *find(id), live_);
    for (std::size_t s = 0; s < live_.size(); ++s) plan.wanted[s] |= live_[s];
  }
}

void Tables::follow_eviction(const Sequence& sequence, LanePlace at) {
  for (MovePlan& plan : moves_.all()) {
    const bool here = plan.at.group == at.group && plan.at.lane == at.lane;
    if (here && is_view(plan, sequence)) follow(plan);
  }
}

void Tables::leave_moves(const Sequence& sequence) {
  moves_.remove_if([&](MovePlan& plan) {
    if (std::erase(plan.views, sequence.id) == 0) return false;
    follow(plan);
    if (!plan.views.empty()) return false;
    end_plan(plan);
    return true;
  });
}

// --- installing ---

MovesReport Tables::install_moves() {
  QUIRE_CHECK(!growing());
  MovesReport done;
  freed_.assign(spares_.size(), 0);
  views_.clear();
  moves_.remove_if([&](const MovePlan& plan) {
    if (!plan.copied) return false;
    if (installable(plan)) {
      freed_[plan.at.group] += install(plan);
      ++done.plans;
      std::size_t entries = 0;
      for (const std::uint64_t wanted : plan.wanted) {
        entries += static_cast<std::size_t>(std::popcount(wanted));
      }
      done.entries += entries;
      done.bytes += geometry_.groups[plan.at.group].block_bytes * entries / geometry_.block_tokens;
      for (const SequenceId id : plan.views) {
        Sequence* view = find(id);
        if (std::ranges::find(views_, view) == views_.end()) views_.push_back(view);
      }
    }
    end_plan(plan);
    return true;
  });
  for (Sequence* view : views_) settle(*view);
  for (std::uint32_t g = 0; g < freed_.size(); ++g) {
    done.blocks += freed_[g];
    // Set aside before rows take all that came free.
    const std::size_t count = spares_[g].count;
    if (count < kSparesMin) set_spares(g, std::min(kSparesMin, count + freed_[g]));
  }
  return done;
}

// Whether the plan's views still are the only readers of its sources, and each gets fewer blocks.
bool Tables::installable(const MovePlan& plan) const {
  std::vector<std::uint64_t> live, bits;
  std::vector<std::uint32_t> readers(plan.sources.size(), 0);
  target_bits(plan, plan.wanted, bits);
  if (filled(bits) >= filled(plan.wanted)) return false;
  for (const SequenceId id : plan.views) {
    const Sequence& view = *find(id);
    live_now(plan, view, live);
    target_bits(plan, live, bits);
    if (filled(bits) > 0 && filled(bits) >= filled(live)) return false;
    for (std::size_t s = 0; s < plan.sources.size(); ++s) {
      const Row& source = plan.sources[s];
      const bool reads = source.packed() ? live[s] != 0 : holds(view, plan.at, source);
      readers[s] += reads ? 1 : 0;
    }
  }
  for (std::size_t s = 0; s < plan.sources.size(); ++s) {
    const Row& source = plan.sources[s];
    if (plan.wanted[s] == 0) continue;  // given up by all of them already
    if (source.packed()) {
      if (pack_of(source).references != readers[s]) return false;
      continue;
    }
    for (const SequenceId id : plan.views) {
      const Sequence& view = *find(id);
      if (!holds(view, plan.at, source)) continue;
      if (extent_of(view, plan.at, source).references != readers[s]) return false;
      break;
    }
  }
  return true;
}

// Whether the sequence still has the extent of a source.
bool Tables::holds(const Sequence& sequence, LanePlace at, const Row& source) const {
  const PagedList<ExtentRef>& list = sequence.groups()[at.group].extents;
  const std::uint32_t i = lower_bound(list, source.place / geometry_.block_tokens);
  return i < list.size() && list[i].ordinal == source.place / geometry_.block_tokens &&
         list[i].extent->blocks()[at.lane] == source.block;
}

// Returns the blocks freed, less those taken.
std::size_t Tables::install(const MovePlan& plan) {
  std::size_t freed = 0, taken = 0;
  for (std::size_t s = 0; s < plan.sources.size(); ++s) {
    const Row& source = plan.sources[s];
    if (plan.wanted[s] == 0) continue;
    ++freed;
    if (source.packed()) continue;
    for (const SequenceId id : plan.views) {
      const Sequence& view = *find(id);
      if (!holds(view, plan.at, source)) continue;
      release_block(extent_of(view, plan.at, source), plan.at.lane);
      break;
    }
  }
  for (const SequenceId id : plan.views) install_view(plan, *find(id));
  for (const Row& target : plan.targets) taken += pack_of(target).references != 0 ? 1 : 0;
  return freed - taken;
}

void Tables::install_view(const MovePlan& plan, Sequence& sequence) {
  Lane& table = lane(sequence, plan.at);
  std::vector<std::uint64_t> live, bits;
  live_now(plan, sequence, live);
  target_bits(plan, live, bits);
  std::uint32_t written = lower_bound(table.rows, plan.first);
  std::uint32_t next = written;
  for (std::size_t s = 0; s < plan.sources.size(); ++s) {
    if (live[s] == 0) continue;
    ++next;
    if (plan.sources[s].packed()) unreference_pack(plan.sources[s]);
  }
  for (std::size_t t = 0; t < plan.targets.size(); ++t) {
    if (bits[t] == 0) continue;
    Row row = plan.targets[t];
    row.live = bits[t];
    ++pack_of(row).references;
    table.rows[written++] = row;
  }
  for (; next < table.rows.size(); ++next) table.rows[written++] = table.rows[next];
  table.rows.resize(nodes_, written);
}

void Tables::end_plan(const MovePlan& plan) {
  for (const SequenceId id : plan.views) --lane(*find(id), plan.at).moving;
  for (const Row& target : plan.targets) {
    if (pack_of(target).references == 0) return_pack(plan.at.group, target);
  }
}

}  // namespace quire
