// The pool: one region of exactly the byte budget, in slabs, handed out as blocks of a few formats
// and as arrays for tables, scores and masks.  Nothing of the cache lives outside it.
//
//   region  | slab 0        | slab 1        | slab 2  ... |      slab = slab_bytes, the last may be
//           | b b b b b . . | a a . a       | (free)      |      missing when the budget is odd
//
// A slab belongs to one size class (a block format or an array class) from its first allocation
// until its last release; then it is free for any class and its memory goes back to the system.
// Allocation prefers the fullest slab of the class, so that slabs empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

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
  std::size_t budget = 0;     // the region
  std::size_t committed = 0;  // slabs taken
  std::size_t blocks = 0;     // of committed: live blocks
  std::size_t arrays = 0;     // of committed: live arrays, rounded to their class
  std::size_t stranded = 0;   // of committed: in no live block or array
  std::size_t peak = 0;       // highest committed, sampled at every allocation
};

class Pool {
 public:
  struct Options {
    std::size_t slab_bytes;  // multiple of 4096
  };
  // The slab size for a budget and its largest extent: max(64 KiB, extent), at most budget / 128,
  // at least one block, a multiple of 4096.
  static std::size_t slab_bytes_for(std::size_t budget_bytes, std::size_t extent_bytes,
                                    std::size_t block_bytes);

  Pool(Memory& memory, Options options);
  ~Pool();

  // Registers a block format before its first block; block_bytes <= slab_bytes.
  FormatId add_format(std::size_t block_bytes);

  // One block, contents unspecified; kNoBlock when the budget has no room.
  BlockId acquire(FormatId format);
  // All of `out` or none (false).
  bool acquire(FormatId format, std::span<BlockId> out);
  void release(BlockId block);
  std::byte* address(BlockId block) const;
  FormatId format_of(BlockId block) const;

  // An array of at least `bytes` (64-byte aligned), rounded up to a class with at most 1/8 waste;
  // larger than a slab: a run of whole slabs.  nullptr when the budget has no room.
  std::byte* acquire_array(std::size_t bytes);
  void release_array(std::byte* array);
  static std::size_t array_bytes(std::size_t bytes);  // what an array of that size is charged

  // Blocks of a format that could be acquired now, if nothing else was.
  std::size_t acquirable(FormatId format) const;
  PoolBytes bytes() const;
  std::size_t slab_bytes() const;
  void check_invariants() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace quire
