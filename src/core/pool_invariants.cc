// Recounts everything the pool believes from its bitmaps.  That blocks and arrays never overlap
// follows: each is its own bits of one bitmap, and the bitmaps' own bytes are outside the slots.
#include "core/pool_state.h"

namespace quire {

void Pool::State::check_slab_list(const SlabBins& bins, std::size_t members) {
  std::size_t found = 0;
  for (std::uint32_t bin = 0; bin < bins.bins(); ++bin) {
    QUIRE_CHECK(bins.occupied(bin) == (bins.head(bin) != kNoSlab));
    std::uint32_t previous = kNoSlab;
    for (std::uint32_t index = bins.head(bin); index != kNoSlab; index = slabs[index].next) {
      QUIRE_CHECK(slabs[index].bin == bin && slabs[index].previous == previous);
      previous = index;
      QUIRE_CHECK(++found <= members);
    }
  }
  QUIRE_CHECK(found == members);
}

void Pool::State::check_blocks() {
  for (std::size_t id = 0; id < formats.size(); ++id) {
    const BlockFormat& format = formats[id];
    std::size_t live = 0, room = 0, partial = 0;
    for (std::uint32_t index = 0; index < slab_count(); ++index) {
      const Slab& slab = slabs[index];
      if (slab.owner != id) continue;
      const std::uint64_t* bits = block_bits(index, format);
      const std::uint32_t words = words_of(format.slots);
      if (format.slots % 64 != 0) QUIRE_CHECK(bits[words - 1] >> (format.slots % 64) == 0);
      QUIRE_CHECK(slab.live > 0 && slab.live + count_bits(bits, format.slots) == format.slots);
      QUIRE_CHECK(next_set(bits, 0, format.slots) >= slab.hint * 64);
      QUIRE_CHECK(slab.bin == format.fullness_bin(slab.live));
      live += slab.live;
      room += format.slots - slab.live;
      partial += slab.live < format.slots;
    }
    QUIRE_CHECK(live == format.live && room == format.room);
    check_slab_list(format.partial, partial);
  }
}

void Pool::State::check_arrays() {
  std::size_t live = 0, partial = 0;
  for (std::uint32_t index = 0; index < slab_count(); ++index) {
    const Slab& slab = slabs[index];
    if (slab.owner == kOwnerRunHead) {
      QUIRE_CHECK(slab.hint >= 1 && slab.hint <= slab_count() - index && slab.bin == kNoBin);
      QUIRE_CHECK(slab.live > (std::uint64_t{slab.hint} - 1) * slab_grains);
      QUIRE_CHECK(slab.live <= std::uint64_t{slab.hint} * slab_grains);
      for (std::uint32_t body = 1; body < slab.hint; ++body) {
        QUIRE_CHECK(slabs[index + body].owner == kOwnerRunBody);
      }
      live += slab.live;
      index += slab.hint - 1;
    } else if (slab.owner == kOwnerArrays) {
      const std::uint64_t* starts = array_start_bits(index);
      std::uint32_t used = array_grains;
      for_each_run(
          array_free_bits(index), array_grains, [&](std::uint32_t begin, std::uint32_t end) {
            used -= end - begin;
            QUIRE_CHECK(next_set(starts, begin, end) == end);           // none starts in a hole
            QUIRE_CHECK(end == array_grains || test_bit(starts, end));  // one starts after it
          });
      QUIRE_CHECK(test_bit(array_free_bits(index), 0) || test_bit(starts, 0));
      QUIRE_CHECK(slab.live > 0 && slab.live == used && slab.hint == largest_hole(index));
      QUIRE_CHECK(slab.bin == (slab.hint == 0 ? kNoBin : hole_bin(slab.hint)));
      live += used;
      partial += slab.hint > 0;
    } else {
      QUIRE_CHECK(slab.owner != kOwnerRunBody);  // a body without its head
    }
  }
  QUIRE_CHECK(live == array_live);
  check_slab_list(holes, partial);
}

void Pool::State::check_idle() {
  std::size_t all = 0, arrays = 0;
  std::vector<std::size_t> blocks(formats.size()), whole(formats.size());
  for (std::uint32_t index = 0; index < slab_count(); ++index) {
    const Slab& slab = slabs[index];
    QUIRE_CHECK(slab.idle <= slab.live);
    const bool is_whole = slab.idle > 0 && slab.idle == slab.live;
    if (slab.owner < formats.size()) {
      blocks[slab.owner] += slab.idle;
      whole[slab.owner] += is_whole;
    } else {
      arrays += slab.idle;
    }
    if (is_whole) all += slab.owner == kOwnerRunHead ? slab.hint : 1;
    if (slab.owner != kOwnerArrays) continue;
    QUIRE_CHECK(count_bits(array_idle_bits(index), array_grains) == slab.idle);
    for_each_run(array_idle_bits(index), array_grains, [&](std::uint32_t begin, std::uint32_t end) {
      QUIRE_CHECK(test_bit(array_start_bits(index), begin));
      QUIRE_CHECK(next_set(array_free_bits(index), begin, end) == end);
    });
  }
  QUIRE_CHECK(all == idle_slabs && arrays == array_idle);
  for (std::size_t f = 0; f < formats.size(); ++f) {
    QUIRE_CHECK(blocks[f] == formats[f].idle && whole[f] == formats[f].idle_slabs);
  }
}

void Pool::State::check_free() {
  std::uint32_t count = 0;
  for (std::uint32_t index = 0; index < slab_count(); ++index) {
    const Slab& slab = slabs[index];
    const bool is_free = slab.owner == kOwnerNone;
    QUIRE_CHECK(is_free == test_bit(free_slabs.data(), index));
    QUIRE_CHECK(is_free || slab.owner < formats.size() || slab.owner >= kOwnerArrays);
    if (is_free) QUIRE_CHECK(slab.live == 0 && slab.bin == kNoBin && index / 64 >= free_hint);
    count += is_free;
  }
  QUIRE_CHECK(count == free_count && committed_slabs() <= peak_slabs);
  QUIRE_CHECK(peak_slabs * slab_bytes <= memory.bytes());
}

void Pool::check_invariants() const {
  state_->check_free();
  state_->check_blocks();
  state_->check_arrays();
  state_->check_idle();
  const PoolBytes total = bytes();
  QUIRE_CHECK(total.blocks + total.arrays + total.stranded == total.committed);
  QUIRE_CHECK(total.committed <= total.budget);
}

}  // namespace quire
