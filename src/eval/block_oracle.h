// How many blocks each way to reclaim memory must hold, from positions alone: written apart from
// the cache, to be compared with what it counts (vToken, arXiv 2608.13263).
#pragma once

#include <cstdint>
#include <span>

#include "eval/shadow.h"

namespace quire::eval {

struct OracleBlocks {
  std::uint64_t never = 0;   // ceil(length / block_tokens) a lane
  std::uint64_t whole = 0;   // blocks with a live entry
  std::uint64_t repack = 0;  // after one repack of what `whole` holds, under the given options
  double waste = 0;          // of `whole`: 1 - mean share of live slots, the open block left out
};

// Of one sequence of `length` positions whose full-attention lanes hold `live` and were never
// repacked before.  The model has no window layers.
OracleBlocks oracle_blocks(const LanePositions& live, std::uint32_t length,
                           std::uint32_t block_tokens, const RepackOptions& options);

// The fewest blocks that neighbours with `fills` live entries (each 1 to block_tokens) can become
// in order.  Blocks fuller than `fullness` move only where that frees another block, fewer than
// four of them for each freed.
std::uint32_t fewest_blocks(std::span<const std::uint32_t> fills, std::uint32_t block_tokens,
                            double fullness);

}  // namespace quire::eval
