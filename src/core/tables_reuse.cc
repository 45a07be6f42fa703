// Reading what the prefix index has: which beginning of a text, and a sequence behind it.
#include <algorithm>

#include "core/tables.h"
#include "quire/check.h"

namespace quire {
namespace {

bool watches_all(const Needs& needs) {
  return needs.tap == Tap::kAllRows || needs.future != 0;
}

// Rows of a prompt that are computed in any case.
std::size_t rows_left(const Needs& needs) {
  const std::uint32_t window = needs.tap == Tap::kLastRows ? needs.window : 0;
  return std::max({1u, window, needs.gate_rows});
}

}  // namespace

std::uint32_t Tables::first_seen(std::uint32_t group, std::uint32_t tokens) const {
  const std::uint32_t window = geometry_.groups[group].window;
  return window == 0 || tokens < window ? 0 : (tokens - window + 1) / geometry_.block_tokens;
}

// Whether every group has what it sees of the first `tokens`.
bool Tables::readable(const PrefixFound& found, std::uint32_t tokens) const {
  const std::uint32_t end = (tokens + geometry_.block_tokens - 1) / geometry_.block_tokens;
  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    for (std::uint32_t i = end; i-- > first_seen(g, tokens);) {
      const Unit* unit = found.tail != nullptr && i == found.tail_at ? found.tail
                         : i < found.units.size()                    ? found.units[i]
                                                                     : nullptr;
      if (unit == nullptr || index_.extent(*unit, g).extent == nullptr) return false;
    }
  }
  return true;
}

// Behind the last unit of use there may be one that begins alike.
void Tables::find_tail(const PrefixText& text, std::span<const PrefixKeys::Unit> keys,
                       PrefixFound& found) const {
  const bool full = std::ranges::any_of(geometry_.groups,
                                        [](const LayerGroup& group) { return group.window == 0; });
  const auto here = [](const Unit* unit) { return unit != nullptr; };
  const auto absent = std::find_if_not(found.units.begin(), found.units.end(), here);
  const auto last = std::find_if(found.units.rbegin(), found.units.rend(), here).base();
  found.tail_at = static_cast<std::uint32_t>((full ? absent : last) - found.units.begin());
  if (std::size_t{found.tail_at} * geometry_.block_tokens == text.tokens.size()) return;
  found.tail = index_.nearest(index_.name(text, keys, found.tail_at), found.tail_tokens);
}

Tables::PrefixFound Tables::find_prefix(const PrefixText& text, const Needs& needs,
                                        std::uint32_t most) const {
  PrefixFound found;
  if (!index_.enabled()) return found;
  PrefixKeys scratch;
  const std::span<const PrefixKeys::Unit> keys = index_.keys_of(text, scratch);
  for (std::uint32_t i = 0; i + 1 < keys.size(); ++i) {
    found.units.push_back(index_.find(index_.name(text, keys, i)));
  }
  found.end = PrefixEnd::kAllRows;
  if (watches_all(needs)) return found;
  found.end = PrefixEnd::kShort;
  if (text.tokens.size() <= rows_left(needs)) return found;
  find_tail(text, keys, found);

  const std::uint32_t block_tokens = geometry_.block_tokens;
  const auto limit = static_cast<std::uint32_t>(
      std::min<std::size_t>(most, text.tokens.size() - rows_left(needs)));
  const std::uint32_t reach = std::min(limit, found.tail_at * block_tokens + found.tail_tokens);
  found.usable = reach;
  while (found.usable > 0 && !readable(found, found.usable)) {
    found.usable = (found.usable - 1) / block_tokens * block_tokens;
  }
  const bool whole = found.tail_at < found.units.size();  // the unit that is not there
  if (found.usable < reach) {
    found.end = PrefixEnd::kWindow;
  } else if (reach == limit) {
    found.end = PrefixEnd::kLastRows;
  } else if (whole && index_.was_evicted(keys[found.tail_at + 1].fingerprint)) {
    found.end = PrefixEnd::kEvicted;
  } else {
    found.end = found.tail != nullptr ? PrefixEnd::kDiffers : PrefixEnd::kCold;
  }
  return found;
}

PrefixMatch Tables::match_prefix(const PrefixText& text, const Needs& needs) const {
  const PrefixFound found = find_prefix(text, needs, ~0u);
  PrefixMatch match{.segments = {}, .usable = found.usable, .end = found.end};
  const auto add = [&](std::size_t tokens, bool cached) {
    if (tokens == 0) return;
    std::uint32_t first = 0;
    if (!match.segments.empty()) {
      PrefixSegment& last = match.segments.back();
      if (last.cached == cached) {
        last.tokens += static_cast<std::uint32_t>(tokens);
        return;
      }
      first = last.first + last.tokens;
    }
    match.segments.push_back({first, static_cast<std::uint32_t>(tokens), cached});
  };
  for (const Unit* unit : found.units) add(geometry_.block_tokens, unit != nullptr);
  add(text.tokens.size() - found.units.size() * geometry_.block_tokens, false);
  return match;
}

std::uint32_t Tables::expect(const PrefixText& text, bool expected) {
  if (!index_.enabled()) return 0;
  std::uint32_t tokens = 0;
  for (Unit* unit : find_prefix(text, {}, ~0u).units) {
    if (unit == nullptr) break;
    if (expected) {
      ++unit->expected;
    } else if (unit->expected > 0) {  // else it was evicted and entered again meanwhile
      --unit->expected;
    }
    for (std::uint32_t which = 0; which < Unit::kParts; ++which) follow_use(*unit, which);
    tokens += geometry_.block_tokens;
  }
  return tokens;
}

// --- a sequence behind it ---

// Takes the references first, so that making room for the sequence does not evict what it reads.
std::vector<Tables::PrefixShare> Tables::take_prefix(const PrefixFound& found) {
  std::vector<PrefixShare> shares;
  const std::uint32_t end = (found.usable + geometry_.block_tokens - 1) / geometry_.block_tokens;
  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    for (std::uint32_t i = first_seen(g, found.usable); i < end; ++i) {
      Unit& unit = i == found.tail_at ? *found.tail : *found.units[i];
      const UnitExtent& share = index_.extent(unit, g);
      shares.push_back({g, {share.extent, i, share.generation}});
      index_.touch(unit.parts[index_.part_of(g)]);
      reference(g, shares.back().ref);
    }
  }
  return shares;
}

void Tables::add_prefix(const Needs& needs, std::span<const PrefixShare> shares,
                        std::uint32_t tokens, Demand& demand) const {
  add_start(demand);
  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    const LayerGroup& group = geometry_.groups[g];
    const auto extents =
        static_cast<std::size_t>(std::ranges::count(shares, g, &PrefixShare::group));
    demand.add_nodes(PagedList<ExtentRef>::nodes_for(extents));
    if (group.window != 0) continue;
    demand.add_nodes(group.lanes * PagedList<Row>::nodes_for(extents));  // set aside
    if (needs.tap != Tap::kDecodeRows) continue;
    for (std::uint32_t l = 0; l < group.lanes; ++l) {
      const std::size_t sums = std::size_t{tokens} * tap_stride(needs, group.query_heads[l]);
      demand.add_nodes(PagedList<std::int64_t>::nodes_for(sums));
    }
  }
}

// False: no room; the sequence is to be erased.
bool Tables::give_prefix(Sequence& sequence, std::span<const PrefixShare> shares,
                         std::uint32_t tokens) {
  for (const PrefixShare& share : shares) {
    PagedList<ExtentRef>& list = sequence.groups()[share.group].extents;
    if (!list.resize(nodes_, list.size() + 1)) return false;
    list.back() = share.ref;
  }
  sequence.length = sequence.prompt_end = sequence.reused = tokens;
  return grow_taps(sequence) && settle_headroom();
}

Sequence* Tables::start_with_prefix(const Needs& needs, const PrefixText& text, std::uint32_t most,
                                    PrefixEnd& end) {
  QUIRE_CHECK(!growing());
  index_.tick();
  const PrefixFound found = find_prefix(text, needs, most);
  end = found.end;
  if (found.usable == 0) return start(needs);
  const std::vector<PrefixShare> shares = take_prefix(found);
  make_room([&](Demand& demand) { add_prefix(needs, shares, found.usable, demand); });
  Sequence* sequence = start(needs);
  if (sequence != nullptr && give_prefix(*sequence, shares, found.usable)) return sequence;
  if (sequence != nullptr) {
    for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
      sequence->groups()[g].extents.resize(nodes_, 0);
    }
    erase(*sequence);
    settle_headroom();
  }
  for (const PrefixShare& share : shares) unreference(share.group, share.ref);
  end = PrefixEnd::kEvicted;  // for want of room
  return start(needs);
}

}  // namespace quire
