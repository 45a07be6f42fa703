#include "core/prefix_index.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "quire/check.h"

namespace quire {
namespace {

std::size_t words_for(std::uint32_t lanes) {
  return (lanes + 63) / 64;
}

bool same_parent(const Unit& unit, const PrefixKeys::Unit& parent) {
  return unit.parent == parent.key && unit.parent_fingerprint == parent.fingerprint;
}

// Below, at or above 0 as the unit comes before, is, or comes after what is named.
int compare(const Unit& unit, const UnitName& name) {
  if (const int by = std::memcmp(unit.parent.data(), name.parent.key.data(), unit.parent.size())) {
    return by;
  }
  if (unit.parent_fingerprint != name.parent.fingerprint) {
    return unit.parent_fingerprint < name.parent.fingerprint ? -1 : 1;
  }
  const std::span<const Token> own = unit.tokens(), other = name.tokens;
  const auto differs = std::ranges::mismatch(own, other);
  if (differs.in2 == other.end()) return own.size() > other.size() ? 1 : 0;
  return differs.in1 == own.end() || *differs.in1 < *differs.in2 ? -1 : 1;
}

std::uint32_t common_tokens(const Unit* unit, const UnitName& name) {
  if (unit == nullptr || !same_parent(*unit, name.parent)) return 0;
  const std::span<const Token> own = unit->tokens();
  return static_cast<std::uint32_t>(std::ranges::mismatch(own, name.tokens).in1 - own.begin());
}

}  // namespace

bool PrefixIndex::NameOrder::operator()(const Unit& a, const Unit& b) const {
  return compare(a, {{b.parent_fingerprint, b.parent}, b.tokens()}) < 0;
}

PrefixIndex::PrefixIndex(Pool& pool, const Geometry& geometry, PrefixNaming naming)
    : pool_(pool), geometry_(geometry), naming_(std::move(naming)) {
  for (const LayerGroup& group : geometry_.groups) {
    has_full_ = has_full_ || group.window == 0;
    words_ += words_for(group.lanes);
  }
  record_bytes_ = sizeof(Unit) + geometry_.groups.size() * sizeof(UnitExtent) +
                  words_ * sizeof(std::uint64_t) + geometry_.block_tokens * sizeof(Token);
  for (auto& order : orders_) order = make_lru_order();
  if (enabled()) evicted_.resize(kEvictedSize);
}

// --- names ---

Digest PrefixIndex::key_of(const PrefixKeys::Unit& parent, std::span<const Token> tokens) const {
  std::array<std::byte, sizeof(Digest) + 64 * sizeof(Token)> bytes;
  QUIRE_CHECK(tokens.size() <= 64);
  std::ranges::copy(parent.key, bytes.begin());
  std::byte* to = bytes.data() + sizeof(Digest);
  for (const Token token : tokens) {
    for (std::uint32_t i = 0; i < 4; ++i) {
      *to++ = static_cast<std::byte>(static_cast<std::uint32_t>(token) >> (8 * i));
    }
  }
  return naming_.hash(std::span(bytes.data(), to));
}

// A key is taken from those kept where all tokens before it, and the salt, give its fingerprint.
std::span<const PrefixKeys::Unit> PrefixIndex::keys_of(const PrefixText& text,
                                                       PrefixKeys& scratch) const {
  std::vector<PrefixKeys::Unit>& keys = text.keys != nullptr ? text.keys->units : scratch.units;
  const std::uint32_t block_tokens = geometry_.block_tokens;
  std::uint64_t fingerprint = 0;
  for (const std::byte b : naming_.root)
    fingerprint = mix(fingerprint + 1 + std::to_integer<std::uint64_t>(b));
  for (const char c : text.salt) fingerprint = mix(fingerprint + 1 + static_cast<unsigned char>(c));
  const auto known = [&](std::size_t i) {
    return i < keys.size() && keys[i].fingerprint == fingerprint;
  };
  if (!known(0)) {
    std::vector<std::byte> bytes(naming_.root.begin(), naming_.root.end());
    for (const char c : text.salt) bytes.push_back(static_cast<std::byte>(c));
    keys.assign(1, {fingerprint, naming_.hash(bytes)});
  }
  const std::size_t units = text.tokens.size() / block_tokens;
  for (std::size_t i = 0; i < units; ++i) {
    const std::span<const Token> tokens = text.tokens.subspan(i * block_tokens, block_tokens);
    for (const Token token : tokens) {
      fingerprint = mix(fingerprint ^ (std::uint64_t{1} << 32 | static_cast<std::uint32_t>(token)));
    }
    if (known(i + 1)) continue;
    keys.resize(i + 1);
    keys.push_back({fingerprint, key_of(keys[i], tokens)});
  }
  return {keys.data(), units + 1};
}

UnitName PrefixIndex::name(const PrefixText& text, std::span<const PrefixKeys::Unit> keys,
                           std::uint32_t i) const {
  const std::size_t first = std::size_t{i} * geometry_.block_tokens;
  const std::size_t count =
      std::min<std::size_t>(geometry_.block_tokens, text.tokens.size() - first);
  return {keys[i], text.tokens.subspan(first, count)};
}

// --- units ---

Unit* PrefixIndex::find(const UnitName& name) const {
  Unit* unit = units_.first_from([&](const Unit& other) { return compare(other, name) < 0; });
  return unit != nullptr && compare(*unit, name) == 0 ? unit : nullptr;
}

Unit* PrefixIndex::nearest(const UnitName& name, std::uint32_t& common) const {
  const auto before = [&](const Unit& other) { return compare(other, name) < 0; };
  Unit *low = units_.last_before(before), *high = units_.first_from(before);
  const std::uint32_t low_common = common_tokens(low, name);
  const std::uint32_t high_common = common_tokens(high, name);
  common = std::max(low_common, high_common);
  if (high != nullptr && high_common == common && same_parent(*high, name.parent)) return high;
  return low != nullptr && same_parent(*low, name.parent) ? low : nullptr;
}

Unit* PrefixIndex::make(const UnitName& name, std::uint64_t fingerprint, std::uint32_t depth) {
  std::byte* memory = pool_.acquire_array(record_bytes_);
  if (memory == nullptr) return nullptr;
  pool_.set_idle(memory, true);
  std::memset(memory, 0, record_bytes_);
  auto* unit = reinterpret_cast<Unit*>(memory);
  unit->parent = name.parent.key;
  unit->parent_fingerprint = name.parent.fingerprint;
  unit->fingerprint = fingerprint;
  unit->links.priority = mix(++made_);
  unit->token_count = geometry_.block_tokens;
  auto* tokens = reinterpret_cast<Token*>(memory + record_bytes_) - geometry_.block_tokens;
  std::ranges::copy(name.tokens, tokens);
  unit->token = tokens;
  unit->depth = depth;
  for (std::uint32_t which = 0; which < Unit::kParts; ++which) {
    Part& part = unit->parts[which];
    part.unit = unit;
    part.which = which;
    part.depth = depth;
    part.links.priority = mix(++made_);
  }
  units_.insert(*unit);
  ++size_;
  ++stats.entered;
  if (was_evicted(fingerprint)) evicted_[fingerprint % kEvictedSize] = 0;
  return unit;
}

void PrefixIndex::erase(Unit& unit) {
  QUIRE_CHECK(!unit.has(Unit::kBase) && !unit.has(Unit::kWindow));
  units_.erase(unit);
  --size_;
  auto* memory = reinterpret_cast<std::byte*>(&unit);
  pool_.set_idle(memory, false);
  pool_.release_array(memory);
}

void PrefixIndex::set_use(Part& part, PartUse use) {
  if (part.use == use) return;
  const auto order = [&] { return orders_[static_cast<std::size_t>(part.use) - 1].get(); };
  const bool used = part.use == PartUse::kAbsent || part.use == PartUse::kRead;
  if (part.use != PartUse::kAbsent) order()->erase(part);
  part.use = use;
  if (used) part.last_use = now_;
  if (use != PartUse::kAbsent) order()->insert(part);
}

void PrefixIndex::touch(Part& part) {
  if (part.use == PartUse::kAbsent) return;
  orders_[static_cast<std::size_t>(part.use) - 1]->touch(part, now_);
}

Part* PrefixIndex::victim(PartUse most) const {
  for (std::size_t use = 1; use <= static_cast<std::size_t>(most); ++use) {
    if (Resident* first = orders_[use - 1]->victim()) return static_cast<Part*>(first);
  }
  return nullptr;
}

bool PrefixIndex::was_evicted(std::uint64_t fingerprint) const {
  return enabled() && evicted_[fingerprint % kEvictedSize] == fingerprint;
}

void PrefixIndex::note_evicted(const Unit& unit) {
  evicted_[unit.fingerprint % kEvictedSize] = unit.fingerprint;
  ++stats.evicted;
}

// --- records ---

std::span<std::uint64_t> PrefixIndex::idle(Unit& unit, std::uint32_t group) const {
  auto* words = reinterpret_cast<std::uint64_t*>(&extent(unit, 0) + geometry_.groups.size());
  for (std::uint32_t g = 0; g < group; ++g) words += words_for(geometry_.groups[g].lanes);
  return {words, words_for(geometry_.groups[group].lanes)};
}

std::uint32_t PrefixIndex::handle(const Unit& unit) const {
  const auto* memory = reinterpret_cast<const std::byte*>(&unit);
  const auto offset = static_cast<std::size_t>(memory - pool_.address(BlockId{0}));
  return static_cast<std::uint32_t>(offset / kBlockGrain) + 1;
}

Unit& PrefixIndex::unit_of(std::uint32_t handle) const {
  return *reinterpret_cast<Unit*>(pool_.address(BlockId{handle - 1}));
}

void PrefixIndex::check_invariants() const {
  std::uint64_t units = 0;
  const Unit* before = nullptr;
  units_.for_each([&](Unit& unit) {
    QUIRE_CHECK(before == nullptr || NameOrder()(*before, unit));
    QUIRE_CHECK(unit.has(Unit::kBase) &&
                find({{unit.parent_fingerprint, unit.parent}, unit.tokens()}) == &unit);
    before = &unit;
    ++units;
  });
  QUIRE_CHECK(units == size_);
}

}  // namespace quire
