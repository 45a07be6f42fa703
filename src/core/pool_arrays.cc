// Arrays of the pool.  Those that fit share slabs whatever their size: with slabs of budget / 128
// and a slab per size class, twenty classes in use would strand a tenth of the budget.
#include <algorithm>

#include "core/pool_state.h"

namespace quire {

std::size_t Pool::array_bytes(std::size_t bytes) {
  QUIRE_CHECK(bytes <= kBudgetBytesMax);
  return array_class((bytes + kBlockGrain - 1) / kBlockGrain) * kBlockGrain;
}

std::uint64_t* Pool::State::array_idle_bits(std::uint32_t index) const {
  return array_free_bits(index) - words_of(slab_grains);
}

std::uint64_t* Pool::State::array_free_bits(std::uint32_t index) const {
  return array_start_bits(index) - words_of(slab_grains);
}

std::uint64_t* Pool::State::array_start_bits(std::uint32_t index) const {
  return reinterpret_cast<std::uint64_t*>(slab_base(index) + slab_bytes) - words_of(slab_grains);
}

void Pool::State::open_array_slab(std::uint32_t index) {
  std::fill_n(array_idle_bits(index), 3 * words_of(slab_grains), 0);
  write_range(array_free_bits(index), 0, array_grains, true);
  note_largest_hole(index, array_grains);
}

std::uint32_t Pool::State::largest_hole(std::uint32_t index) const {
  std::uint32_t largest = 0;
  for_each_run(array_free_bits(index), array_grains, [&](std::uint32_t begin, std::uint32_t end) {
    largest = std::max(largest, end - begin);
  });
  return largest;
}

void Pool::State::note_largest_hole(std::uint32_t index, std::uint32_t grains) {
  slabs[index].hint = grains;
  holes.move(slabs, index, grains == 0 ? kNoBin : hole_bin(grains));
}

// Into the smallest hole that fits: large ones stay whole for large arrays.
std::byte* Pool::State::place_array(std::uint32_t index, std::uint32_t grains) {
  std::uint32_t first = 0, best = slab_grains + 1;
  for_each_run(array_free_bits(index), array_grains, [&](std::uint32_t begin, std::uint32_t end) {
    if (end - begin < grains || end - begin >= best) return;
    first = begin;
    best = end - begin;
  });
  QUIRE_CHECK(best <= slab_grains);
  write_range(array_free_bits(index), first, first + grains, false);
  write_range(array_start_bits(index), first, first + 1, true);
  count_idle(index, false);
  slabs[index].live += grains;
  if (best == slabs[index].hint) note_largest_hole(index, largest_hole(index));
  return slab_base(index) + first * kBlockGrain;
}

std::byte* Pool::acquire_array(std::size_t bytes) {
  State& s = *state_;
  if (bytes > s.memory.bytes()) return nullptr;
  const std::uint64_t grains = array_bytes(bytes) / kBlockGrain;
  if (grains > s.array_grains) {
    const std::uint64_t count = (grains + s.slab_grains - 1) / s.slab_grains;
    if (count > s.free_count) return nullptr;
    const std::uint32_t head = s.take_run(static_cast<std::uint32_t>(count));
    if (head == kNoSlab) return nullptr;
    s.slabs[head].live = static_cast<std::uint32_t>(grains);
    s.slabs[head].hint = static_cast<std::uint32_t>(count);
    s.array_live += grains;
    return s.slab_base(head);
  }
  const auto small = static_cast<std::uint32_t>(grains);
  std::uint32_t index = s.holes.lowest_from(hole_bin(small));
  if (index == kNoSlab) {
    index = s.take_slab(kOwnerArrays);
    if (index == kNoSlab) return nullptr;
    s.open_array_slab(index);
  }
  s.array_live += small;
  return s.place_array(index, small);
}

void Pool::State::release_run(std::uint32_t head) {
  QUIRE_CHECK(slabs[head].idle == 0);
  array_live -= slabs[head].live;
  give_back(head, slabs[head].hint);
}

std::uint32_t Pool::State::array_end(std::uint32_t index, std::uint32_t first_grain) const {
  QUIRE_CHECK(first_grain < array_grains);
  // Else within an array, or released already.
  QUIRE_CHECK(test_bit(array_start_bits(index), first_grain));
  return std::min(next_set(array_start_bits(index), first_grain + 1, array_grains),
                  next_set(array_free_bits(index), first_grain + 1, array_grains));
}

void Pool::State::release_in_slab(std::uint32_t index, std::uint32_t first_grain) {
  std::uint64_t* free_bits = array_free_bits(index);
  std::uint64_t* start_bits = array_start_bits(index);
  const std::uint32_t end = array_end(index, first_grain);
  QUIRE_CHECK(!test_bit(array_idle_bits(index), first_grain));
  array_live -= end - first_grain;
  slabs[index].live -= end - first_grain;
  if (slabs[index].live == 0) {
    holes.move(slabs, index, kNoBin);
    give_back(index, 1);
    return;
  }
  count_idle(index, true);
  write_range(start_bits, first_grain, first_grain + 1, false);
  write_range(free_bits, first_grain, end, true);
  const std::uint32_t hole =
      next_clear(free_bits, end - 1, array_grains) - run_begin(free_bits, first_grain);
  note_largest_hole(index, std::max(slabs[index].hint, hole));
}

void Pool::release_array(std::byte* array) {
  State& s = *state_;
  QUIRE_CHECK(array >= s.base && array < s.base + s.slabs.size() * s.slab_bytes);
  const auto offset = static_cast<std::size_t>(array - s.base);
  const auto index = static_cast<std::uint32_t>(offset / s.slab_bytes);
  const std::size_t inside = offset % s.slab_bytes;
  if (s.slabs[index].owner == kOwnerRunHead) {
    QUIRE_CHECK(inside == 0);
    s.release_run(index);
    return;
  }
  QUIRE_CHECK(s.slabs[index].owner == kOwnerArrays);  // else no array starts in this slab
  QUIRE_CHECK(inside % kBlockGrain == 0);
  s.release_in_slab(index, static_cast<std::uint32_t>(inside / kBlockGrain));
}

void Pool::set_idle(std::byte* array, bool idle) {
  State& s = *state_;
  const auto offset = static_cast<std::size_t>(array - s.base);
  const auto index = static_cast<std::uint32_t>(offset / s.slab_bytes);
  Slab& slab = s.slabs[index];
  std::uint32_t grains = slab.live;  // of a run
  if (slab.owner != kOwnerRunHead) {
    QUIRE_CHECK(slab.owner == kOwnerArrays);  // else no array starts in this slab
    const auto first = static_cast<std::uint32_t>(offset % s.slab_bytes / kBlockGrain);
    const std::uint32_t end = s.array_end(index, first);
    QUIRE_CHECK(test_bit(s.array_idle_bits(index), first) != idle);
    write_range(s.array_idle_bits(index), first, end, idle);
    grains = end - first;
  }
  s.count_idle(index, false);
  slab.idle += idle ? grains : 0u - grains;
  s.array_idle += idle ? grains : std::size_t{0} - grains;
  s.count_idle(index, true);
}

std::size_t Pool::array_slab_bytes() const {
  return std::size_t{state_->array_grains} * kBlockGrain;
}

std::size_t Pool::array_room(std::size_t largest, Idle idle) const {
  State& s = *state_;
  const auto grains = static_cast<std::uint32_t>(array_bytes(largest) / kBlockGrain);
  std::size_t room = 0;
  for (std::uint32_t index = 0; index < s.slab_count(); ++index) {
    const Slab& slab = s.slabs[index];
    if (slab.owner != kOwnerArrays) continue;
    const std::uint64_t* bits = s.array_free_bits(index);
    if (idle == Idle::kGone && slab.idle != 0) {
      if (slab.idle == slab.live) continue;  // a free slab
      for (std::size_t word = 0; word < s.array_bits.size(); ++word) {
        s.array_bits[word] = bits[word] | s.array_idle_bits(index)[word];
      }
      bits = s.array_bits.data();
    }
    for_each_run(bits, s.array_grains, [&](std::uint32_t begin, std::uint32_t end) {
      // A hole stops serving when what is left of it is below the largest.
      if (end - begin >= grains) room += end - begin - (grains - 1);
    });
  }
  return room * kBlockGrain;
}

}  // namespace quire
