#include "core/pool.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/pool_state.h"

namespace quire {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSlabBytesMin = 64 * 1024;  // fewer, and headers and commits cost too much
constexpr std::size_t kSlabsMin = 128;  // fewer, and one slab per format in use strands too much

constexpr std::size_t round_up(std::size_t value, std::size_t grain) {
  return (value + grain - 1) / grain * grain;
}

std::uint32_t array_slab_grains(std::uint32_t slab_grains) {
  const std::size_t bitmap_bytes = 3 * words_of(slab_grains) * sizeof(std::uint64_t);
  return slab_grains -
         static_cast<std::uint32_t>(round_up(bitmap_bytes, kBlockGrain) / kBlockGrain);
}

}  // namespace

std::size_t Pool::slab_bytes_for(std::size_t budget_bytes, std::size_t extent_bytes,
                                 std::size_t block_bytes) {
  const std::size_t block = round_up(std::max<std::size_t>(block_bytes, 1), kBlockGrain);
  const std::size_t extent = std::max<std::size_t>(extent_bytes / block, 1);  // blocks
  const std::size_t most =
      std::max<std::size_t>(budget_bytes / kSlabsMin / kPage * kPage / block, 1);
  const std::size_t least = std::min(most, (kSlabBytesMin + block - 1) / block);
  // Both in 1/1024 of the slab.  A slab that does not divide its extent is shared by two.
  const auto tail = [&](std::size_t blocks) {
    const std::size_t slab = round_up(blocks * block, kPage);
    return (slab - blocks * block) * 1024 / slab;
  };
  const auto cost = [&](std::size_t blocks) {
    const bool divides = extent % blocks == 0 || blocks % extent == 0;
    return tail(blocks) + (divides ? 0 : 16);
  };
  std::size_t best = least;
  for (std::size_t blocks = least; blocks <= std::min(most, 4 * least); ++blocks) {
    if (cost(blocks) < cost(best)) best = blocks;
  }
  while (tail(best) > 64) ++best;  // ends: 64 blocks are whole pages
  return round_up(best * block, kPage);
}

Pool::State::State(Memory& region, std::size_t bytes_per_slab)
    : memory(region),
      base(region.base()),
      slab_bytes(bytes_per_slab),
      slab_grains(static_cast<std::uint32_t>(bytes_per_slab / kBlockGrain)),
      array_grains(array_slab_grains(slab_grains)),
      slabs(region.bytes() / bytes_per_slab),
      free_slabs(words_of(slab_count())),
      free_count(slab_count()),
      holes(hole_bin(array_grains) + 1),
      array_bits(words_of(slab_grains)) {
  write_range(free_slabs.data(), 0, slab_count(), true);
  formats.reserve(kFormatsMax);
}

Pool::Pool(Memory& memory, Options options) {
  QUIRE_CHECK(memory.bytes() <= kBudgetBytesMax);
  QUIRE_CHECK(options.slab_bytes > 0 && options.slab_bytes % kPage == 0);
  QUIRE_CHECK(options.slab_bytes <= kBudgetBytesMax);
  state_ = std::make_unique<State>(memory, options.slab_bytes);
}

Pool::~Pool() {
  State& s = *state_;
  for (std::uint32_t index = 0; index < s.slab_count(); ++index) {
    if (s.slabs[index].owner != kOwnerNone) s.memory.release(index * s.slab_bytes, s.slab_bytes);
  }
}

FormatId Pool::add_format(std::size_t block_bytes) {
  State& s = *state_;
  QUIRE_CHECK(block_bytes > 0 && block_bytes <= s.slab_bytes);
  QUIRE_CHECK(s.formats.size() < kFormatsMax);
  BlockFormat format;
  format.stride = static_cast<std::uint32_t>(round_up(block_bytes, kBlockGrain) / kBlockGrain);
  format.slots = s.slab_grains / format.stride;
  const auto free_bytes = [&] {
    return s.slab_bytes - std::size_t{format.slots} * format.stride * kBlockGrain;
  };
  while (format.bits_in_slab() && free_bytes() < words_of(format.slots) * sizeof(std::uint64_t)) {
    --format.slots;
  }
  s.formats.push_back(std::move(format));
  return FormatId{static_cast<std::uint8_t>(s.formats.size() - 1)};
}

// --- slabs ---

bool Pool::State::commit_slabs(std::uint32_t first, std::uint32_t count) {
  if (!memory.commit(first * slab_bytes, count * slab_bytes)) return false;
  write_range(free_slabs.data(), first, first + count, false);
  free_count -= count;
  peak_slabs = std::max(peak_slabs, committed_slabs());
  return true;
}

std::uint32_t Pool::State::take_slab(std::uint8_t owner) {
  if (free_count == 0) return kNoSlab;
  while (free_slabs[free_hint] == 0) ++free_hint;
  const std::uint32_t index =
      free_hint * 64 + static_cast<std::uint32_t>(std::countr_zero(free_slabs[free_hint]));
  if (!commit_slabs(index, 1)) return kNoSlab;
  slabs[index].owner = owner;
  return index;
}

std::uint32_t Pool::State::take_run(std::uint32_t count) {
  if (count > free_count) return kNoSlab;
  std::uint32_t first = kNoSlab;  // high, because single slabs are taken low
  for_each_run(free_slabs.data(), slab_count(), [&](std::uint32_t begin, std::uint32_t end) {
    if (end - begin >= count) first = end - count;
  });
  if (first == kNoSlab || !commit_slabs(first, count)) return kNoSlab;
  slabs[first].owner = kOwnerRunHead;
  for (std::uint32_t body = first + 1; body < first + count; ++body) {
    slabs[body].owner = kOwnerRunBody;
  }
  return first;
}

void Pool::State::give_back(std::uint32_t first, std::uint32_t count) {
  for (std::uint32_t index = first; index < first + count; ++index) {
    slabs[index].owner = kOwnerNone;
    slabs[index].live = slabs[index].hint = slabs[index].idle = 0;
  }
  write_range(free_slabs.data(), first, first + count, true);
  free_count += count;
  free_hint = std::min(free_hint, first / 64);
  memory.release(first * slab_bytes, count * slab_bytes);
}

// --- blocks ---

BlockFormat& Pool::State::format(FormatId id) {
  const auto index = static_cast<std::size_t>(id);
  QUIRE_CHECK(index < formats.size());
  return formats[index];
}

std::uint64_t* Pool::State::block_bits(std::uint32_t index, const BlockFormat& format) {
  if (!format.bits_in_slab()) return slabs[index].free_bits.data();
  return reinterpret_cast<std::uint64_t*>(slab_base(index) +
                                          std::size_t{format.slots} * format.stride * kBlockGrain);
}

void Pool::State::open_block_slab(std::uint32_t index, BlockFormat& format) {
  std::uint64_t* bits = block_bits(index, format);
  std::fill_n(bits, words_of(format.slots), 0);
  write_range(bits, 0, format.slots, true);
  format.room += format.slots;
  format.partial.insert(slabs, index, 0);
}

BlockId Pool::acquire(FormatId id) {
  State& s = *state_;
  BlockFormat& format = s.format(id);
  std::uint32_t index = format.partial.highest();
  if (index == kNoSlab) {
    index = s.take_slab(static_cast<std::uint8_t>(id));
    if (index == kNoSlab) return kNoBlock;
    s.open_block_slab(index, format);
  }
  Slab& slab = s.slabs[index];
  std::uint64_t* bits = s.block_bits(index, format);
  const std::uint32_t slot = next_set(bits, slab.hint * 64, format.slots);
  QUIRE_CHECK(slot < format.slots);
  slab.hint = slot / 64;
  bits[slot / 64] &= bits[slot / 64] - 1;
  s.count_idle(index, false);
  ++slab.live;
  ++format.live;
  --format.room;
  format.partial.move(s.slabs, index, format.fullness_bin(slab.live));
  return BlockId{index * s.slab_grains + slot * format.stride};
}

std::size_t Pool::State::fill_whole_slabs(FormatId id, std::span<BlockId> out) {
  BlockFormat& format = formats[static_cast<std::size_t>(id)];
  std::size_t count = 0;
  while (out.size() - count >= format.slots) {
    const std::uint32_t index = take_slab(static_cast<std::uint8_t>(id));
    if (index == kNoSlab) break;
    std::fill_n(block_bits(index, format), words_of(format.slots), 0);
    slabs[index].live = format.slots;
    format.live += format.slots;
    for (std::uint32_t slot = 0; slot < format.slots; ++slot) {
      out[count++] = BlockId{index * slab_grains + slot * format.stride};
    }
  }
  return count;
}

bool Pool::acquire(FormatId id, std::span<BlockId> out) {
  State& s = *state_;
  if (out.size() <= acquirable(id)) {
    std::size_t count = s.fill_whole_slabs(id, out);
    const std::size_t left = out.size() - count;
    const bool refused = left >= s.format(id).slots && s.free_count > 0;
    if (!refused || left <= s.format(id).room) {
      while (count < out.size() && (out[count] = acquire(id)) != kNoBlock) ++count;
      if (count == out.size()) return true;
    }
    while (count > 0) release(out[--count]);
  }
  std::fill(out.begin(), out.end(), kNoBlock);
  return false;
}

Pool::State::Place Pool::State::find(BlockId block) {
  const auto grain = static_cast<std::uint32_t>(block);
  const std::uint32_t index = grain / slab_grains;
  QUIRE_CHECK(index < slab_count());
  QUIRE_CHECK(slabs[index].owner < formats.size());  // else no block lives in this slab
  BlockFormat& format = formats[slabs[index].owner];
  const std::uint32_t inside = grain - index * slab_grains;
  const std::uint32_t slot = inside / format.stride;
  QUIRE_CHECK(slot * format.stride == inside && slot < format.slots);  // else within a block
  QUIRE_CHECK(!test_bit(block_bits(index, format), slot));             // else released already
  return {index, slot, &format};
}

void Pool::release(BlockId block) {
  State& s = *state_;
  const State::Place place = s.find(block);
  Slab& slab = s.slabs[place.slab];
  BlockFormat& format = *place.format;
  QUIRE_CHECK(slab.idle < slab.live);
  --format.live;
  if (--slab.live == 0) {
    format.room -= format.slots - 1;
    format.partial.move(s.slabs, place.slab, kNoBin);
    s.give_back(place.slab, 1);
    return;
  }
  s.count_idle(place.slab, true);
  ++format.room;
  s.block_bits(place.slab, format)[place.slot / 64] |= std::uint64_t{1} << (place.slot % 64);
  slab.hint = std::min(slab.hint, place.slot / 64);
  if (!slab.closed) format.partial.move(s.slabs, place.slab, format.fullness_bin(slab.live));
}

std::byte* Pool::address(BlockId block) const {
  const State& s = *state_;
  const auto grain = static_cast<std::uint32_t>(block);
  QUIRE_CHECK(grain < s.slabs.size() * s.slab_grains);
  return s.base + std::size_t{grain} * kBlockGrain;
}

FormatId Pool::format_of(BlockId block) const {
  const State::Place place = state_->find(block);
  return FormatId{state_->slabs[place.slab].owner};
}

// --- emptying slabs ---

std::size_t Pool::close_emptiest(std::size_t count) {
  State& s = *state_;
  QUIRE_CHECK(s.closed.empty());
  std::array<std::size_t, kFormatsMax> room{};  // beside the closed slabs and what is to move there
  for (std::size_t f = 0; f < s.formats.size(); ++f) room[f] = s.formats[f].room;
  while (s.closed.size() < count) {
    std::uint32_t emptiest = kNoSlab;
    std::size_t least = 0;  // bytes to move
    for (std::size_t f = 0; f < s.formats.size(); ++f) {
      const BlockFormat& format = s.formats[f];
      const std::uint32_t index = format.partial.lowest_from(0);
      if (index == kNoSlab || room[f] < format.slots) continue;
      const std::size_t bytes = std::size_t{s.slabs[index].live} * format.stride;
      if (emptiest != kNoSlab && bytes >= least) continue;
      emptiest = index;
      least = bytes;
    }
    if (emptiest == kNoSlab) break;
    Slab& slab = s.slabs[emptiest];
    room[slab.owner] -= s.formats[slab.owner].slots;  // its free blocks, and those its blocks take
    s.formats[slab.owner].partial.remove(s.slabs, emptiest);
    slab.closed = true;
    s.closed.push_back(emptiest);
  }
  return s.closed.size();
}

bool Pool::closed(BlockId block) const {
  return state_->slabs[static_cast<std::uint32_t>(block) / state_->slab_grains].closed;
}

void Pool::open_slabs() {
  State& s = *state_;
  for (const std::uint32_t index : s.closed) {
    Slab& slab = s.slabs[index];
    slab.closed = false;
    if (slab.live == 0) continue;
    s.formats[slab.owner].partial.insert(s.slabs, index,
                                         s.formats[slab.owner].fullness_bin(slab.live));
  }
  s.closed.clear();
}

// --- idle ---

void Pool::State::count_idle(std::uint32_t index, bool counted) {
  const Slab& slab = slabs[index];
  if (slab.idle == 0 || slab.idle != slab.live) return;
  const std::size_t count = slab.owner == kOwnerRunHead ? slab.hint : 1;
  idle_slabs += counted ? count : 0 - count;
  if (slab.owner < formats.size()) formats[slab.owner].idle_slabs += counted ? count : 0 - count;
}

void Pool::set_idle(BlockId block, bool idle) {
  State& s = *state_;
  const State::Place place = s.find(block);
  Slab& slab = s.slabs[place.slab];
  QUIRE_CHECK(idle ? slab.idle < slab.live : slab.idle > 0);
  s.count_idle(place.slab, false);
  slab.idle += idle ? 1 : 0u - 1;
  place.format->idle += idle ? 1 : std::size_t{0} - 1;
  s.count_idle(place.slab, true);
}

// --- counts ---

std::size_t Pool::free_slabs(Idle idle) const {
  return state_->free_count + (idle == Idle::kGone ? state_->idle_slabs : 0);
}

std::size_t Pool::block_room(FormatId id, Idle idle) const {
  const BlockFormat& format = state_->format(id);
  if (idle == Idle::kThere) return format.room;
  return format.room + format.idle - format.idle_slabs * format.slots;
}

std::size_t Pool::acquirable(FormatId id) const {
  const BlockFormat& format = state_->format(id);
  return format.room + std::size_t{state_->free_count} * format.slots;
}

std::size_t Pool::blocks_per_slab(FormatId id) const {
  return state_->format(id).slots;
}

PoolBytes Pool::bytes() const {
  const State& s = *state_;
  PoolBytes bytes;
  bytes.budget = s.memory.bytes();
  bytes.committed = s.committed_slabs() * s.slab_bytes;
  bytes.bookkeeping = sizeof(State) + s.slabs.size() * sizeof(Slab) + s.free_slabs.size() * 8 +
                      kFormatsMax * sizeof(BlockFormat) + s.holes.bytes() + s.array_bits.size() * 8;
  for (const BlockFormat& format : s.formats) {
    bytes.blocks += format.live * format.stride * kBlockGrain;
    bytes.idle += format.idle * format.stride * kBlockGrain;
    bytes.bookkeeping += format.partial.bytes();
  }
  bytes.arrays = s.array_live * kBlockGrain;
  bytes.idle += s.array_idle * kBlockGrain;
  bytes.stranded = bytes.committed - bytes.blocks - bytes.arrays;
  bytes.peak = s.peak_slabs * s.slab_bytes;
  return bytes;
}

std::size_t Pool::slab_bytes() const {
  return state_->slab_bytes;
}

}  // namespace quire
