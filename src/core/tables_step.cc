// A step: room for its rows in every table, or nothing changed.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "core/tables.h"
#include "quire/check.h"

namespace quire {

bool Tables::grow(std::span<const Growth> step) {
  QUIRE_CHECK(!growing());
  const std::size_t groups = geometry_.groups.size();
  placing_ = make_room([&](Demand& demand) { add_growth(step, kOneStep, demand); }).placing;
  replaced_.assign(step.size() * groups, ExtentRef{});
  for (const Growth& growth : step) {
    step_.push_back({growth.sequence, step_.size() * groups});
    if (!grow_sequence(growth, {&replaced_[step_.back().replaced], groups})) {
      retract();
      return false;
    }
  }
  if (!settle_headroom()) {
    retract();
    return false;
  }
  for (const Growing& growing : step_) renew_window(*growing.sequence);
  return true;
}

// Sums of a window are those of rows that follow each other, at most Needs::window of them.
void Tables::renew_window(Sequence& sequence) {
  const std::uint32_t rows = sequence.window_rows_pending;
  if (sequence.needs.tap != Tap::kLastRows || rows == 0 || sequence.window_rows == 0) return;
  const bool continued = rows == sequence.pending && sequence.window_end == sequence.length &&
                         sequence.window_rows + rows <= sequence.needs.window;
  if (continued) return;
  sequence.window_rows = 0;
  clear_sums(sequence);
}

void Tables::clear_sums(Sequence& sequence) {
  const std::uint32_t states = sequence.needs.state ? 1 : 0;
  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    for (std::uint32_t l = 0; l < geometry_.groups[g].lanes; ++l) {
      const PagedList<std::int64_t>& taps = lane(sequence, {g, l}).taps;
      const std::uint32_t stride = tap_stride(sequence, {g, l});
      taps.for_each_run(0, taps.size(),
                        [&](std::uint32_t first, std::int64_t* run, std::uint32_t count) {
                          for (std::uint32_t i = 0; i < count; ++i) {
                            if (states == 0 || (first + i) % stride != stride - 1) run[i] = 0;
                          }
                        });
    }
  }
}

bool Tables::grow_sequence(const Growth& growth, std::span<ExtentRef> replaced) {
  Sequence& sequence = *growth.sequence;
  sequence.pending = growth.rows;
  sequence.window_rows_pending = growth.window_rows;
  sequence.query_rows_pending = growth.query_rows;
  sequence.gate_rows_pending = sequence.gate_on != 0 ? growth.gate_rows : 0;
  sequence.answering = growth.answer ? 1 : 0;
  for (std::uint32_t g = 0; g < replaced.size(); ++g) {
    if (!grow_group(sequence, g, replaced[g])) return false;
  }
  return grow_taps(sequence) && grow_queries(sequence) && grow_gate(sequence);
}

bool Tables::grow_group(Sequence& sequence, std::uint32_t group, ExtentRef& replaced) {
  const std::uint32_t block_tokens = geometry_.block_tokens;
  std::uint32_t ordinal = sequence.length / block_tokens;
  if (sequence.length % block_tokens != 0) {
    if (!grow_open_extent(sequence, group, replaced)) return false;
    ++ordinal;
  }
  const std::uint64_t end = std::uint64_t{sequence.length} + sequence.pending;
  for (; std::uint64_t{ordinal} * block_tokens < end; ++ordinal) {
    if (!push_extent(sequence, group, ordinal)) return false;
  }
  for (std::uint32_t l = 0; l < geometry_.groups[group].lanes; ++l) {
    if (!grow_rows(sequence, {group, l})) return false;
  }
  return true;
}

// The extent that the sequence's last block lies in gets a private block for every lane.
bool Tables::grow_open_extent(Sequence& sequence, std::uint32_t group, ExtentRef& replaced) {
  const LayerGroup& shape = geometry_.groups[group];
  const std::uint32_t ordinal = sequence.length / geometry_.block_tokens;
  const PagedList<ExtentRef>& list = sequence.groups()[group].extents;
  if (list.empty() || list.back().ordinal != ordinal) return push_extent(sequence, group, ordinal);
  Extent& open = checked(list.back());
  if (!open.shared()) {
    for (std::uint32_t l = 0; l < shape.lanes; ++l) {
      if (open.blocks()[l] != kNoBlock) continue;
      if ((open.blocks()[l] = pool_.acquire(shape.format)) == kNoBlock) return false;
      ++open.held;
    }
    return true;
  }
  Extent* copy = make_extent(shape, ordinal);
  if (copy == nullptr) return false;
  for (std::uint32_t l = 0; l < shape.lanes; ++l) {
    if (open.blocks()[l] == kNoBlock) continue;
    std::memcpy(pool_.address(copy->blocks()[l]), pool_.address(open.blocks()[l]),
                shape.block_bytes);
  }
  replaced = list.back();
  list.back() = {copy, ordinal, copy->generation};
  return true;
}

bool Tables::push_extent(Sequence& sequence, std::uint32_t group, std::uint32_t ordinal) {
  Extent* extent = make_extent(geometry_.groups[group], ordinal);
  if (extent == nullptr) return false;
  PagedList<ExtentRef>& list = sequence.groups()[group].extents;
  if (!list.resize(nodes_, list.size() + 1)) {
    free_extent(geometry_.groups[group], extent);
    return false;
  }
  list.back() = {extent, ordinal, extent->generation};
  return true;
}

bool Tables::grow_rows(Sequence& sequence, LanePlace at) {
  Lane& table = lane(sequence, at);
  if (table.own == 0) return true;
  const std::uint32_t block_tokens = geometry_.block_tokens;
  const Position begin = sequence.length, end = begin + sequence.pending;
  const std::uint32_t ordinal = begin / block_tokens;
  const PagedList<ExtentRef>& list = sequence.groups()[at.group].extents;
  const std::uint32_t first_extent = lower_bound(list, ordinal);
  const bool open = !table.rows.empty() && table.rows.back().place == ordinal * block_tokens;
  std::uint32_t row = table.rows.size() - (open ? 1 : 0);
  if (!table.rows.resize(nodes_, row + list.size() - first_extent)) return false;
  for (std::uint32_t e = first_extent; e < list.size(); ++e, ++row) {
    const Position base = list[e].ordinal * block_tokens;
    std::uint64_t fresh = bits_below(base, end);
    if (base < begin) fresh &= ~bits_below(base, begin);
    table.rows[row].block = list[e].extent->blocks()[at.lane];
    table.rows[row].place = base;
    table.rows[row].live |= fresh;
  }
  table.live += sequence.pending;
  return true;
}

bool Tables::grow_taps(Sequence& sequence) {
  if (sequence.taps == TapState::kWaiting && sequence.window_rows_pending > 0) {
    sequence.taps = TapState::kOn;
    sequence.taps_fresh = 1;
  }
  if (sequence.taps != TapState::kOn) return true;
  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    if (geometry_.groups[g].window != 0) continue;
    for (std::uint32_t l = 0; l < geometry_.groups[g].lanes; ++l) {
      const std::uint32_t sums = live(sequence, {g, l}) * tap_stride(sequence, {g, l});
      if (!lane(sequence, {g, l}).taps.resize(nodes_, sums)) return false;
    }
  }
  return true;
}

bool Tables::grow_queries(Sequence& sequence) {
  if (sequence.needs.future == 0 || !sequence.queries.empty()) return true;
  sequence.queries_fresh = 1;
  return sequence.queries.resize(nodes_, geometry_.query_floats);
}

bool Tables::grow_gate(Sequence& sequence) {
  if (sequence.gate_on == 0 || !sequence.gate_queries.empty()) return true;
  sequence.gate_fresh = 1;
  return sequence.gate_queries.resize(nodes_, sequence.needs.gate_rows * geometry_.gate_floats);
}

// --- undo ---

void Tables::retract() {
  for (const Growing& growing : step_) {
    retract_sequence(*growing.sequence, {&replaced_[growing.replaced], geometry_.groups.size()});
  }
  step_.clear();
  settle_headroom();
}

void Tables::retract_sequence(Sequence& sequence, std::span<ExtentRef> replaced) {
  sequence.pending = 0;
  sequence.window_rows_pending = 0;
  sequence.query_rows_pending = 0;
  if (sequence.queries_fresh != 0) sequence.queries.resize(nodes_, 0);
  sequence.queries_fresh = 0;
  sequence.gate_rows_pending = 0;
  if (sequence.gate_fresh != 0) sequence.gate_queries.resize(nodes_, 0);
  sequence.gate_fresh = 0;
  for (std::uint32_t g = 0; g < replaced.size(); ++g) {
    for (std::uint32_t l = 0; l < geometry_.groups[g].lanes; ++l) {
      retract_rows(sequence, {g, l}, replaced[g]);
    }
    retract_group(sequence, g, replaced[g]);
  }
  retract_taps(sequence);
}

void Tables::retract_rows(Sequence& sequence, LanePlace at, const ExtentRef& replaced) {
  Lane& table = lane(sequence, at);
  if (table.own == 0) return;
  const Position length = sequence.length;
  std::uint32_t rows = table.rows.size();
  for (; rows > 0 && first_position(table.rows[rows - 1]) >= length; --rows) {
    table.live -= static_cast<std::uint32_t>(std::popcount(table.rows[rows - 1].live));
  }
  // What a pack holds is all below the length.
  if (rows > 0 && !table.rows[rows - 1].packed() &&
      table.rows[rows - 1].place + geometry_.block_tokens > length) {
    Row& open = table.rows[rows - 1];
    const std::uint64_t kept = open.live & bits_below(open.place, length);
    table.live -= static_cast<std::uint32_t>(std::popcount(open.live ^ kept));
    open.live = kept;
    if (kept == 0) {
      --rows;
    } else if (replaced.extent != nullptr) {
      open.block = replaced.extent->blocks()[at.lane];
    }
  }
  table.rows.resize(nodes_, rows);
}

void Tables::retract_group(Sequence& sequence, std::uint32_t group, ExtentRef& replaced) {
  const LayerGroup& shape = geometry_.groups[group];
  const std::uint32_t block_tokens = geometry_.block_tokens;
  PagedList<ExtentRef>& list = sequence.groups()[group].extents;
  std::uint32_t extents = list.size();
  for (; extents > 0 && list[extents - 1].ordinal * block_tokens >= sequence.length; --extents) {
    free_extent(shape, list[extents - 1].extent);
  }
  if (replaced.extent != nullptr) {
    free_extent(shape, list[extents - 1].extent);
    list[extents - 1] = replaced;
    replaced = {};
  } else if (extents > 0 && sequence.length % block_tokens != 0 &&
             list[extents - 1].ordinal == sequence.length / block_tokens) {
    Extent* open = list[extents - 1].extent;
    if (!open->shared()) release_dead_blocks(sequence, group, *open);
    if (open->held == 0) {
      free_extent(shape, open);
      --extents;
    }
  }
  list.resize(nodes_, extents);
}

void Tables::retract_taps(Sequence& sequence) {
  if (sequence.taps_fresh != 0) {
    drop_taps(sequence);
  } else if (sequence.taps == TapState::kOn) {
    grow_taps(sequence);  // to fewer: cannot fail
  }
}

// --- commit ---

void Tables::publish() {
  index_.tick();
  for (const Growing& growing : step_) {
    Sequence& sequence = *growing.sequence;
    index_.stats.hits += sequence.reused != 0 ? 1 : 0;
    index_.stats.hit_tokens += sequence.reused;
    sequence.reused = 0;
    publish_gate(sequence);
    sequence.length += sequence.pending;
    if (sequence.answering == 0) sequence.prompt_end = sequence.length;
    sequence.pending = 0;
    sequence.window_rows += sequence.window_rows_pending;
    if (sequence.window_rows_pending > 0) sequence.window_end = sequence.length;
    sequence.window_rows_pending = 0;
    sequence.taps_fresh = 0;
    sequence.query_rows += sequence.query_rows_pending;
    sequence.query_rows_pending = 0;
    sequence.queries_fresh = 0;
  }
  for (const Growing& growing : step_) {
    for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
      const ExtentRef& replaced = replaced_[growing.replaced + g];
      if (replaced.extent != nullptr) unreference(g, replaced);
      if (geometry_.groups[g].window != 0) pass_window(*growing.sequence, g);
    }
  }
  step_.clear();
}

// Rows that do not follow those there are begin anew.
void Tables::publish_gate(Sequence& sequence) {
  const std::uint32_t rows = std::exchange(sequence.gate_rows_pending, 0);
  sequence.gate_fresh = 0;
  if (rows == 0) return;
  const bool continued = rows == sequence.pending && sequence.gate_end == sequence.length;
  const std::uint32_t before = continued ? sequence.gate_rows : 0;
  sequence.gate_rows = std::min(sequence.needs.gate_rows, before + rows);
  sequence.gate_end = sequence.length + sequence.pending;
}

void Tables::keep_queries(Sequence& sequence, bool on) {
  sequence.gate_on = on && sequence.needs.gate_rows != 0 ? 1 : 0;
  sequence.gate_rows = 0;
  sequence.gate_queries.resize(nodes_, 0);
}

// Gives up the extents that no later row of the sequence can see.
void Tables::pass_window(Sequence& sequence, std::uint32_t group) {
  const std::uint64_t window = geometry_.groups[group].window;
  // What a sequence that begins behind the last whole unit would see is there to be indexed.
  const std::uint64_t next = index_.enabled()
                                 ? sequence.length - sequence.length % geometry_.block_tokens
                                 : sequence.length;
  PagedList<ExtentRef>& list = sequence.groups()[group].extents;
  const auto passed = [&](std::uint32_t ordinal) {
    const std::uint64_t end = (std::uint64_t{ordinal} + 1) * geometry_.block_tokens;
    return end + window <= next + 1;
  };
  std::uint32_t count = 0;
  for (; count < list.size() && passed(list[count].ordinal); ++count) {
    const ExtentRef ref = list[count];
    list[count].extent = nullptr;  // reclaim() must not find this sequence as the owner left
    unreference(group, ref);
  }
  if (count == 0) return;
  list.erase_front(nodes_, count);
  for (std::uint32_t l = 0; l < geometry_.groups[group].lanes; ++l) {
    Lane& table = lane(sequence, {group, l});
    if (table.own == 0) continue;
    std::uint32_t rows = 0;
    for (; rows < table.rows.size(); ++rows) {
      const Row& row = table.rows[rows];
      if (!passed(row.place / geometry_.block_tokens)) break;
      const auto live = static_cast<std::uint32_t>(std::popcount(row.live));
      table.first += live;
      table.live -= live;
    }
    table.rows.erase_front(nodes_, rows);
  }
}

}  // namespace quire
