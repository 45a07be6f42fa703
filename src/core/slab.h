// What the pool knows of one slab, and lists of slabs in bins.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quire/check.h"

namespace quire {

constexpr std::uint32_t kNoSlab = 0xFFFFFFFFu;
constexpr std::uint16_t kNoBin = 0xFFFFu;

// Owner of a slab: a FormatId below Pool::kFormatsMax, or one of these.
constexpr std::uint8_t kOwnerArrays = 0xFC;   // arrays that share the slab
constexpr std::uint8_t kOwnerRunHead = 0xFD;  // first slab of an array of whole slabs
constexpr std::uint8_t kOwnerRunBody = 0xFE;  // its other slabs
constexpr std::uint8_t kOwnerNone = 0xFF;

// Bitmaps of up to this many blocks live in the header.  Larger ones, of blocks below 1/512 of a
// slab, would make the header large for every slab, so they live at the end of their own.
constexpr std::uint32_t kHeaderBlocks = 512;

struct Slab {
  std::uint32_t previous = kNoSlab, next = kNoSlab;  // in the list of its bin
  std::uint32_t live = 0;      // blocks; of arrays, grains as charged; of a run's head, likewise
  std::uint32_t hint = 0;      // blocks: no free bit in lower words; arrays: grains of the largest
                               // hole; run head: slabs
  std::uint32_t idle = 0;      // of live: see Pool::set_idle()
  std::uint16_t bin = kNoBin;  // kNoBin: in no list (full, free, or part of a run)
  std::uint8_t owner = kOwnerNone;
  bool closed = false;                                        // see Pool::close_emptiest()
  std::array<std::uint64_t, kHeaderBlocks / 64> free_bits{};  // 1 = free
};
static_assert(sizeof(Slab) == 88, "pool.h states this number");

// Doubly linked lists through Slab::previous and next, one per bin; a slab is in at most one.
class SlabBins {
 public:
  explicit SlabBins(std::uint32_t bins) : heads_(bins, kNoSlab), occupied_((bins + 63) / 64) {}

  void insert(std::span<Slab> slabs, std::uint32_t index, std::uint32_t bin) {
    QUIRE_CHECK(bin < heads_.size() && slabs[index].bin == kNoBin);
    Slab& slab = slabs[index];
    slab.bin = static_cast<std::uint16_t>(bin);
    slab.previous = kNoSlab;
    slab.next = heads_[bin];
    if (slab.next != kNoSlab) slabs[slab.next].previous = index;
    heads_[bin] = index;
    occupied_[bin / 64] |= std::uint64_t{1} << (bin % 64);
  }

  void remove(std::span<Slab> slabs, std::uint32_t index) {
    Slab& slab = slabs[index];
    const std::uint32_t bin = slab.bin;
    if (slab.next != kNoSlab) slabs[slab.next].previous = slab.previous;
    if (slab.previous != kNoSlab) {
      slabs[slab.previous].next = slab.next;
    } else {
      heads_[bin] = slab.next;
      if (slab.next == kNoSlab) occupied_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
    }
    slab.bin = kNoBin;
    slab.previous = slab.next = kNoSlab;
  }

  // Moves a slab to `bin`; kNoBin: to no list.
  void move(std::span<Slab> slabs, std::uint32_t index, std::uint32_t bin) {
    if (slabs[index].bin == bin) return;
    if (slabs[index].bin != kNoBin) remove(slabs, index);
    if (bin != kNoBin) insert(slabs, index, bin);
  }

  // A slab of the highest bin that has one, or kNoSlab.
  std::uint32_t highest() const {
    for (std::size_t word = occupied_.size(); word-- > 0;) {
      if (occupied_[word] == 0) continue;
      return heads_[word * 64 + 63 - static_cast<std::size_t>(std::countl_zero(occupied_[word]))];
    }
    return kNoSlab;
  }

  // A slab of the lowest bin in [bin, all) that has one, or kNoSlab.
  std::uint32_t lowest_from(std::uint32_t bin) const {
    std::uint64_t mask = ~std::uint64_t{0} << (bin % 64);
    for (std::size_t word = bin / 64; word < occupied_.size(); ++word) {
      const std::uint64_t bits = occupied_[word] & mask;
      if (bits != 0) return heads_[word * 64 + static_cast<std::size_t>(std::countr_zero(bits))];
      mask = ~std::uint64_t{0};
    }
    return kNoSlab;
  }

  std::uint32_t bins() const { return static_cast<std::uint32_t>(heads_.size()); }
  std::uint32_t head(std::uint32_t bin) const { return heads_[bin]; }
  bool occupied(std::uint32_t bin) const { return (occupied_[bin / 64] >> (bin % 64) & 1) != 0; }
  std::size_t bytes() const { return heads_.size() * 4 + occupied_.size() * 8; }

 private:
  std::vector<std::uint32_t> heads_;     // first slab of each bin
  std::vector<std::uint64_t> occupied_;  // bit per bin
};

}  // namespace quire
