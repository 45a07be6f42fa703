// The pool: one region of exactly the byte budget, in slabs, handed out as blocks of a few formats
// and as arrays for tables, scores and masks.  Nothing of the cache lives outside it.
//
//   region  | slab 0        | slab 1        | slab 2  ... |      slab = slab_bytes, the last may be
//           | b b b b b . . | a a . a       | (free)      |      missing when the budget is odd
//
// A slab belongs to one block format, or to arrays of any size, from its first allocation until its
// last release; then it is free for any use and its memory goes back to the system.  A block comes
// from the fullest slab with room, so that slabs empty; many blocks at once fill whole free slabs
// first, so that an extent's slabs empty when it is released.
//
// Outside the region, fixed at construction: 88 bytes and one bit per slab (0.14 % of a 64 KiB
// slab, less of a larger one), and 416 bytes per format.  An array slab gives 3/512 of itself to
// its own bitmaps, a slab of more than 512 blocks 1/8 byte per block.
//
// Blocks and arrays may be marked idle: their owner would rather lose them than see a refusal.  The
// pool takes nothing from anybody; it can be asked what there would be room for without them.
//
// One thread at a time.  A wrong id or pointer, or a second release, is a QUIRE_CHECK.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "quire/status.h"

namespace quire {

// Where the region's memory comes from: core owns no system call.
class Memory {
 public:
  virtual ~Memory() = default;
  // Base of `bytes` reserved bytes, aligned to 4096; touching them before commit() is a bug.
  virtual std::byte* base() const = 0;
  virtual std::size_t bytes() const = 0;
  // Makes [offset, offset + bytes) usable; its contents are unspecified.  False: the system
  // refused.
  virtual bool commit(std::size_t offset, std::size_t bytes) = 0;
  virtual void release(std::size_t offset, std::size_t bytes) = 0;
};

// Address of a block: offset in the region / kBlockGrain.  32 bits reach 256 GiB.
enum class BlockId : std::uint32_t {};
constexpr BlockId kNoBlock{0xFFFFFFFFu};
constexpr std::size_t kBlockGrain = 64;

enum class FormatId : std::uint8_t {};  // a block format registered with the pool

struct PoolBytes {
  std::size_t budget = 0;       // the region
  std::size_t committed = 0;    // slabs taken
  std::size_t blocks = 0;       // of committed: live blocks, rounded to kBlockGrain
  std::size_t arrays = 0;       // of committed: live arrays, as array_bytes() charges them
  std::size_t stranded = 0;     // of committed: in no live block or array
  std::size_t idle = 0;         // of blocks and arrays
  std::size_t peak = 0;         // highest committed, sampled at every allocation
  std::size_t bookkeeping = 0;  // outside the region: slab headers and lists
};

// Whether idle blocks and arrays count as there or as released.
enum class Idle : std::uint8_t { kThere, kGone };

class Pool {
 public:
  struct Options {
    std::size_t slab_bytes;  // multiple of 4096
  };
  static constexpr std::size_t kBudgetBytesMax = 0xFFFFFFFFull * kBlockGrain;
  static constexpr std::uint32_t kFormatsMax = 32;

  // The slab size for a budget, its largest extent and that extent's blocks: the part of the extent
  // in whole blocks and whole pages that is at least 64 KiB, at most budget / 128 (at least one
  // block), and leaves the smallest tail.  Parts, because with a slab per extent a
  // pool of 64 MiB that changes over between three formats stranded 4.8 % on average and 45 % at
  // worst; with five slabs per extent 1.3 % and 10 % (SmolLM2, test/core/pool_stranded_test.cc).
  static std::size_t slab_bytes_for(std::size_t budget_bytes, std::size_t extent_bytes,
                                    std::size_t block_bytes);

  // REQUIRES: memory outlives the pool; memory.bytes() <= kBudgetBytesMax.  A budget below one slab
  // is a pool with no room.
  Pool(Memory& memory, Options options);
  ~Pool();  // gives all memory back; blocks and arrays still live end here
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Registers a block format before its first block; 0 < block_bytes <= slab_bytes.
  FormatId add_format(std::size_t block_bytes);

  // One block, contents unspecified, aligned to kBlockGrain; kNoBlock when the budget has no room
  // or the system refused to commit a slab.
  BlockId acquire(FormatId format);
  // All of `out`, or false and none: out is then all kNoBlock.
  bool acquire(FormatId format, std::span<BlockId> out);
  void release(BlockId block);
  std::byte* address(BlockId block) const;  // checks the region only: this one is on hot paths
  FormatId format_of(BlockId block) const;

  // An array of at least `bytes` (64-byte aligned), contents unspecified, rounded up to whole
  // grains, then to a size class with at most 1/8 waste; larger than a slab: a run of whole slabs.
  // nullptr when the budget has no room or the system refused.
  std::byte* acquire_array(std::size_t bytes);
  void release_array(std::byte* array);
  static std::size_t array_bytes(std::size_t bytes);  // what an array of that size is charged

  // REQUIRES: a live block or array that is not what it becomes; idle ones are not released.
  void set_idle(BlockId block, bool idle);
  void set_idle(std::byte* array, bool idle);

  // Emptying slabs: closes at most `count` of those that blocks share, the emptiest, as many as
  // have all their blocks find room in others.  No block comes from a closed slab, and none of its
  // own is there twice: the caller acquires another for each, copies, releases, and then opens them
  // again, by which time those without blocks are free for any use.  Returns how many were closed.
  std::size_t close_emptiest(std::size_t count);
  bool closed(BlockId block) const;  // whether its slab is; of a released one, too
  void open_slabs();

  // Slabs that are free; and blocks and arrays that find room beside them, in slabs already taken.
  std::size_t free_slabs(Idle idle) const;
  std::size_t block_room(FormatId format, Idle idle) const;
  // Blocks of a format that could be acquired now, if nothing else was.
  std::size_t acquirable(FormatId format) const;
  std::size_t blocks_per_slab(FormatId format) const;
  // Bytes of arrays that a slab serves, and those that slabs already taken are certain to serve to
  // arrays of at most `largest` charged bytes each, in whatever order they come.
  std::size_t array_slab_bytes() const;
  std::size_t array_room(std::size_t largest, Idle idle) const;
  PoolBytes bytes() const;
  std::size_t slab_bytes() const;
  void check_invariants() const;  // every bitmap, list and total; a violation is a QUIRE_CHECK

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace quire
