// The parts of the pool that pool.cc, pool_arrays.cc and pool_invariants.cc share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/pool.h"
#include "core/slab.h"
#include "core/slab_bits.h"

namespace quire {

// Slabs with room are binned by how full they are: exactly, up to 64 blocks a slab.
constexpr std::uint32_t kFullnessBins = 64;

struct BlockFormat {
  std::uint32_t stride = 0;         // grains
  std::uint32_t slots = 0;          // blocks of one slab
  std::size_t live = 0;             // blocks
  std::size_t room = 0;             // free blocks of slabs already taken
  std::size_t idle = 0;             // of live
  std::size_t idle_slabs = 0;       // slabs of nothing but idle blocks
  SlabBins partial{kFullnessBins};  // slabs with room by fullness_bin()

  bool bits_in_slab() const { return slots > kHeaderBlocks; }
  std::uint32_t fullness_bin(std::uint32_t used) const {
    if (used == slots) return kNoBin;
    return static_cast<std::uint32_t>(std::uint64_t{used} * kFullnessBins / slots);
  }
};

// Grains rounded up to a class: exact to 8, then eight classes per doubling.
constexpr std::uint64_t array_class(std::uint64_t grains) {
  if (grains <= 8) return std::max<std::uint64_t>(grains, 1);
  const std::uint64_t step = std::uint64_t{1} << (std::bit_width(grains - 1) - 4);
  return (grains + step - 1) / step * step;
}

// Rank of the largest class that fits into a hole: hole_bin(c - 1) < hole_bin(c) for a class c.
constexpr std::uint32_t hole_bin(std::uint32_t grains) {
  if (grains < 8) return grains;
  const auto shift = static_cast<std::uint32_t>(std::bit_width(grains)) - 4;
  return shift * 8 + (grains >> shift);
}

struct Pool::State {
  State(Memory& region, std::size_t bytes_per_slab);

  Memory& memory;
  std::byte* base;
  std::size_t slab_bytes;
  std::uint32_t slab_grains;
  std::uint32_t array_grains;  // of an array slab: those its bitmaps do not take

  std::vector<Slab> slabs;
  std::vector<std::uint64_t> free_slabs;  // 1 = free
  std::uint32_t free_count = 0;           // slabs
  std::uint32_t free_hint = 0;            // no free slab in lower words of free_slabs
  std::vector<BlockFormat> formats;
  SlabBins holes;                         // array slabs by hole_bin() of their largest hole, if any
  std::size_t array_live = 0;             // grains, as charged
  std::size_t array_idle = 0;             // of those
  std::size_t idle_slabs = 0;             // slabs in which all that lives is idle
  std::vector<std::uint64_t> array_bits;  // scratch of Pool::array_room()
  std::vector<std::uint32_t> closed;      // slabs
  std::size_t peak_slabs = 0;

  std::uint32_t slab_count() const { return static_cast<std::uint32_t>(slabs.size()); }
  std::size_t committed_slabs() const { return slabs.size() - free_count; }
  std::byte* slab_base(std::uint32_t index) const { return base + index * slab_bytes; }

  // Takes the lowest free slab, or `count` contiguous ones as high as there are; kNoSlab when there
  // are none or the system refused to commit them.
  std::uint32_t take_slab(std::uint8_t owner);
  std::uint32_t take_run(std::uint32_t count);
  void give_back(std::uint32_t first, std::uint32_t count);
  bool commit_slabs(std::uint32_t first, std::uint32_t count);

  // Counts the slab among those of idle things only, or no longer: around each change of its
  // counts.
  void count_idle(std::uint32_t index, bool counted);

  // --- blocks ---
  struct Place {  // of a live block
    std::uint32_t slab, slot;
    BlockFormat* format;
  };
  BlockFormat& format(FormatId id);
  Place find(BlockId block);
  std::uint64_t* block_bits(std::uint32_t index, const BlockFormat& format);  // 1 = free
  void open_block_slab(std::uint32_t index, BlockFormat& format);

  std::size_t fill_whole_slabs(FormatId id, std::span<BlockId> out);  // blocks acquired

  // --- arrays ---
  // Three bitmaps at the end of an array slab, each of slab_grains bits: grains of idle arrays,
  // free grains, first grains of arrays.
  std::uint64_t* array_idle_bits(std::uint32_t index) const;
  std::uint64_t* array_free_bits(std::uint32_t index) const;
  std::uint64_t* array_start_bits(std::uint32_t index) const;
  void open_array_slab(std::uint32_t index);
  std::uint32_t largest_hole(std::uint32_t index) const;  // grains
  void note_largest_hole(std::uint32_t index, std::uint32_t grains);
  std::byte* place_array(std::uint32_t index, std::uint32_t grains);
  void release_run(std::uint32_t head);
  std::uint32_t array_end(std::uint32_t index, std::uint32_t first_grain) const;  // of a live one
  void release_in_slab(std::uint32_t index, std::uint32_t first_grain);

  // --- pool_invariants.cc ---
  void check_slab_list(const SlabBins& bins, std::size_t members);
  void check_blocks();
  void check_arrays();
  void check_idle();
  void check_free();
};

}  // namespace quire
